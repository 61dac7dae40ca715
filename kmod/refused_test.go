package kmod

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestReason(t *testing.T) {
	t.Parallel()
	legacy := "NVRM: The NVIDIA Tesla K80 GPU installed in this system is\nNVRM:  supported through the NVIDIA 470.xx Legacy drivers. Please\n" +
		"NVRM:  visit http://www.nvidia.com/object/unix.html for more\nNVRM:  information.  The 535.261.03 NVIDIA driver will ignore\n" +
		"NVRM:  this GPU.  Continuing probe...\nNVRM: ignoring the legacy GPU 0000:00:05.0\nNVRM: The NVIDIA probe routine failed for 1 device(s).\n" +
		"NVRM: None of the NVIDIA devices were initialized.\nnvidia-nvlink: Unregistered Nvlink Core, major device number 246"
	open := "NVRM: The NVIDIA GPU 0000:00:05.0 (PCI ID: 10de:15f8)\nNVRM: installed in this system is not supported by open\nNVRM: nvidia.ko because it does not include the required GPU\n" +
		"NVRM: System Processor (GSP).\nNVRM: Please see the 'Open Linux Kernel Modules' and 'GSP\nNVRM: Firmware' sections in the driver README.\nNVRM: None of the NVIDIA devices were initialized."
	tooNew := "NVRM: The NVIDIA GPU 0000:00:05.0 (PCI ID: 10de:2901)\nNVRM: installed in this system is not supported by the\nNVRM: NVIDIA 535.261.03 driver release.\n" +
		"NVRM: Please see 'Appendix A - Supported NVIDIA GPU Products'\nNVRM: in this release's README, available on the operating system\nNVRM: specific graphics driver download page at www.nvidia.com."
	lost := "NVRM: The NVIDIA GPU 0000:00:05.0\nNVRM: (PCI ID: 10de:1eb8) installed in this system has\nNVRM: fallen off the bus and is not responding to commands."
	bound := "NVRM: The NVIDIA probe routine was not called for 1 device(s).\nNVRM: This can occur when another driver was loaded and \n" +
		"NVRM: obtained ownership of the NVIDIA device(s).\nNVRM: No NVIDIA devices probed."
	vfio := "NVRM: GPU 0000:01:00.0 is already bound to vfio-pci.\n" + bound
	for _, c := range []struct {
		errno unix.Errno
		log   string
		want  []string // substrings
	}{
		{unix.EKEYREJECTED, "Loading of unsigned module is rejected", []string{"not signed", "mokutil --import"}},
		{unix.ENOKEY, "", []string{"not signed, or with a key that this kernel does not know"}},
		{unix.EKEYREJECTED, "Loading of module with unavailable key is rejected", []string{"a key that this kernel does not know", "mokutil"}},
		{unix.EKEYREJECTED, "module: not signed with expected PKCS#7 message\nLoading of module with unsupported crypto is rejected", []string{"hash or cipher", "CONFIG_MODULE_SIG_HASH"}},
		{unix.EKEYREJECTED, "", []string{"changed after it was signed"}},
		{unix.EBADMSG, "", []string{"signature is damaged"}},
		{unix.EPERM, "audit: something\nLockdown: driver-entrypoi: unsigned module loading is restricted; see man kernel_lockdown.7",
			[]string{"locked down", "Lockdown: driver-entrypoi: unsigned module loading is restricted", "mokutil"}},
		{unix.EPERM, "", []string{"privileged"}},
		{unix.EPERM, "Module nvidia is blacklisted", []string{"command line forbids this module (Module nvidia is blacklisted): take it out of module_blacklist="}},
		{unix.ENOENT, "", []string{"a symbol"}},
		{unix.ENOEXEC, "nvidia: version magic '5.10.0-32-amd64 SMP mod_unload modversions ' should be '6.1.0-56-amd64 SMP preempt mod_unload modversions '",
			[]string{"compiled for another kernel (nvidia: version magic '5.10.0-32-amd64", "headers"}},
		{unix.ENOEXEC, "module nvidia: .gnu.linkonce.this_module section size must match the kernel's built struct module size at run time", []string{"another kernel, or is damaged"}},
		{unix.ENOEXEC, "nvidia: exports duplicate symbol nvidia_p2p_get_pages (owned by nvidia_current)", []string{"another copy", "nvidia_current"}},
		{unix.EINVAL, "nvidia_uvm: disagrees about version of symbol nvUvmInterfaceRegisterGpu\nnvidia_uvm: Unknown symbol nvUvmInterfaceRegisterGpu (err -22)",
			[]string{"another build of the modules it uses (nvidia_uvm: disagrees about version of symbol nvUvmInterfaceRegisterGpu)", "unload the other version"}},
		{unix.ENOENT, "nvidia_uvm: Unknown symbol nvUvmInterfaceX (err -2)", []string{"Unknown symbol nvUvmInterfaceX", "one driver and flavour"}},
		{unix.EINVAL, "nvidia: `abc' invalid for parameter `NVreg_EnableMSI'", []string{"`abc' invalid for parameter `NVreg_EnableMSI'", "/drivers/<module>.conf"}},
		{unix.ENODEV, legacy, []string{"no longer supports the GPU (The NVIDIA Tesla K80 GPU installed in this system is supported through the NVIDIA 470.xx Legacy drivers): "}},
		{unix.ENODEV, open, []string{"not supported by open nvidia.ko because", "proprietary flavour"}},
		{unix.ENODEV, tooNew, []string{"The NVIDIA GPU 0000:00:05.0 (PCI ID: 10de:2901) installed in this system is not supported by the NVIDIA 535.261.03 driver release)", "newer driver"}},
		{unix.ENODEV, lost, []string{"has fallen off the bus and is not responding to commands)", "power"}},
		{unix.ENODEV, bound, []string{"another driver has the GPU (The NVIDIA probe routine was not called for 1 device(s)): "}},
		{unix.ENODEV, vfio, []string{"GPU 0000:01:00.0 is already bound to vfio-pci)"}},
		{unix.ENODEV, "NVRM: No NVIDIA GPU found.", []string{"no NVIDIA GPU", "lspci"}},
		{unix.ENODEV, "NVRM: something unheard of.", []string{"something unheard of"}},
		{unix.ENODEV, "", []string{"no GPU that it can serve: see"}},
		{unix.ENOSYS, "", []string{"without loadable modules"}},
		{unix.ENOMEM, "vmap allocation for size 65175712 failed: use vmalloc=<size> to increase size", []string{"address space"}},
		{unix.EINVAL, "", []string{"did not like its parameters"}},
		{unix.EIO, "NVRM: failed to register", []string{"dmesg"}},
	} {
		e := &RefusedError{Module: "nvidia", Path: "/x/nvidia.ko", Errno: c.errno}
		if c.log != "" {
			e.Kernel = strings.Split(c.log, "\n")
		}
		got := e.Reason()
		for _, part := range c.want {
			if !strings.Contains(got, part) {
				t.Errorf("%v %.60q: %s\nwant it to say %q", c.errno, c.log, got, part)
			}
		}
		if strings.Contains(e.Error(), c.errno.Error()) || !strings.Contains(e.Error(), "("+unix.ErrnoName(c.errno)+")") {
			t.Errorf("%v: %q has the text of the number and not its name", c.errno, e.Error())
		}
		if strings.ContainsAny(got, "\n\r") || !strings.Contains(got, ": ") {
			t.Errorf("%v: %q is not one line with a fix", c.errno, got)
		}
	}
}

func FuzzReason(f *testing.F) {
	f.Add(uint16(unix.ENODEV), "NVRM: No NVIDIA GPU found.\nx: version magic 'a'. b")
	f.Add(uint16(unix.EPERM), "Lockdown: a. b\n. NVRM:\n. ")
	f.Fuzz(func(t *testing.T, errno uint16, log string) {
		e := &RefusedError{Module: "m", Errno: unix.Errno(errno), Kernel: strings.Split(log, "\n")}
		if got := e.Reason(); got == "" || len(got) > 2000 {
			t.Errorf("Reason() has %d bytes", len(got))
		}
		if e.Error() == "" {
			t.Error("no text")
		}
	})
}
