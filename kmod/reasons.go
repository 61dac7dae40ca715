//go:build linux

package kmod

// reason is one way in which a load fails. The first one that matches counts.
type reason struct {
	errnos   string // their names; any number matches when empty
	phrase   string // text in the kernel's log; "" always matches
	quote    bool   // the explanation quotes the log
	why, fix string
}

const (
	fixUnsigned = "use an image with signed modules and enrol their key on this machine (mokutil --import CERTIFICATE, then restart), " +
		"or switch Secure Boot, lockdown or module.sig_enforce off"
	fixKey = "enrol the key that the modules are signed with on this machine (mokutil --import CERTIFICATE, then restart), use an image " +
		"whose modules are signed with one that it trusts, or switch Secure Boot or module.sig_enforce off"
	fixRebuild = "use modules that were compiled for exactly this kernel, with its own headers"
	fixParam   = "correct it in /drivers/<module>.conf or modprobe.d"
)

// reasons has texts of kernel/module/*.c and security/lockdown of Linux 3.10 to 6.x, and of
// NVIDIA's drivers 418 to 580. The ones about signatures were observed on Debian's 6.1 with and
// without Secure Boot.
var reasons = []reason{
	{"EKEYREJECTED ENOKEY", "unsigned module is rejected", false,
		"the module is not signed, and this kernel takes only signed ones (Secure Boot or module.sig_enforce)", fixUnsigned},
	{"EKEYREJECTED ENOKEY", "unavailable key is rejected", false,
		"the module is signed with a key that this kernel does not know", fixKey},
	{"EKEYREJECTED ENOPKG", "unsupported crypto is rejected", false,
		"the module is signed with a hash or cipher that this kernel does not have at hand", "sign it with the hash that the kernel " +
			"names in CONFIG_MODULE_SIG_HASH (sha256 is always a good choice), or load the kernel's module for it (sha512_generic)"},
	{
		"ENOPKG",
		"",
		false,
		"the module is signed with a hash or cipher that this kernel does not have",
		"sign it with sha256",
	},
	{
		"ENOKEY",
		"",
		false,
		"the module is not signed, or with a key that this kernel does not know",
		fixUnsigned,
	},
	{
		"EKEYREJECTED",
		"",
		false,
		"the module's signature does not fit its content: it was changed after it was signed " +
			"(strip does that) or is damaged",
		"take the module from its source again, or sign it again",
	},
	{
		"EBADMSG",
		"",
		false,
		"the module's signature is damaged",
		"take the module from its source again, or sign it again",
	},
	{
		"EPERM",
		"Lockdown:",
		true,
		"the kernel is locked down and takes only modules with a valid signature",
		fixUnsigned,
	},
	{
		"EPERM EACCES",
		"LoadPin:",
		true,
		"this kernel takes modules only from one read-only file system (LoadPin)",
		"put the modules there, or start the machine with loadpin.enforce=0",
	},
	{
		"EPERM",
		"is blacklisted",
		true,
		"the kernel's command line forbids this module",
		"take it out of module_blacklist= there, and restart the machine",
	},
	{"EPERM EACCES", "", false, "this process may not load modules",
		"run the container privileged (CAP_SYS_MODULE), without a seccomp, AppArmor or SELinux rule that forbids it"},

	{"", "invalid for parameter", true, "the module does not take a parameter's value", fixParam},
	{
		"",
		"too large for parameter",
		true,
		"the module does not take a parameter's value",
		fixParam,
	},
	{"", "version magic", true, "the module was compiled for another kernel", fixRebuild},
	{
		"",
		"disagrees about version of symbol",
		true,
		"the module was compiled against another kernel, or another build of the modules it uses",
		"unload the other version first; " + fixRebuild + ", all of one driver and flavour",
	},
	{
		"",
		"exports duplicate symbol",
		true,
		"another copy of the same module is loaded under another name",
		"unload that one first",
	},
	{
		"",
		"Unknown symbol",
		true,
		"the module needs a symbol that is not in this kernel or not loaded yet",
		"load the modules that it depends on first, all of one driver and flavour; " + fixRebuild,
	},
	{
		"EINVAL",
		" BTF",
		true,
		"the module's type information does not fit this kernel",
		fixRebuild,
	},
	{
		"ENOEXEC",
		"",
		false,
		"the kernel does not take the file's format: it was compiled for another kernel, or is damaged",
		fixRebuild,
	},
	{
		"ENOENT",
		"",
		false,
		"the module needs a symbol that is not in this kernel or not loaded yet",
		"load the modules that it depends on first",
	},

	{
		"",
		"Legacy drivers",
		true,
		"this driver no longer supports the GPU",
		"use an image with the legacy driver branch that is named",
	},
	{
		"",
		"supported by open",
		true,
		"the open kernel modules do not support this GPU",
		"use the proprietary flavour",
	},
	{
		"",
		"does not include the required GPU System Processor",
		true,
		"the open kernel modules do not support this GPU",
		"use the proprietary flavour",
	},
	{
		"",
		"is not supported by the NVIDIA",
		true,
		"this driver does not know the GPU",
		"use an image with a newer driver",
	},
	{
		"",
		"fallen off the bus",
		true,
		"the GPU does not answer",
		"power the machine off and on; when that does not help the GPU, " +
			"its slot or its power supply is broken",
	},
	{
		"",
		"already bound to",
		true,
		"another driver has the GPU",
		"take the GPU from that driver (unbind it, and keep it from binding at boot)",
	},
	{"", "probe routine was not called", true, "another driver has the GPU",
		"take the GPU from that driver (nouveau, vfio-pci, pci-stub: see /sys/bus/pci/devices/*/driver)"},
	{
		"ENODEV",
		"No NVIDIA GPU found",
		false,
		"this machine has no NVIDIA GPU",
		"run the driver only where lspci -d 10de: shows one",
	},
	{
		"ENODEV",
		"No NVIDIA graphics adapter found",
		false,
		"this machine has no NVIDIA GPU",
		"run the driver only where lspci -d 10de: shows one",
	},
	{
		"",
		"assigned to your NVIDIA device is invalid",
		true,
		"the firmware gave the GPU no usable memory window",
		"switch on Above 4G Decoding in the machine's firmware, or start the kernel with pci=realloc",
	},
	{
		"ENODEV",
		"",
		true,
		"the driver found no GPU that it can serve",
		"see the kernel's log (dmesg)",
	},

	{
		"",
		"vmap allocation for size",
		true,
		"the kernel has no address space left for the module",
		"restart the machine",
	},
	{
		"ENOMEM",
		"",
		false,
		"the kernel has no memory for the module",
		"free memory on the machine",
	},
	{
		"ENOSYS EOPNOTSUPP",
		"",
		false,
		"this kernel was built without loadable modules",
		"use another kernel",
	},
	{
		"EBUSY",
		"",
		false,
		"a module of this name is starting or stopping right now",
		"try again; when that does not help restart the machine",
	},
	{
		"ETXTBSY",
		"",
		false,
		"another process is still writing the module's file",
		"try again when it is complete",
	},
	{
		"EINVAL",
		"",
		true,
		"the module did not like its parameters, or does not fit the modules that are loaded",
		"look into the kernel's log (dmesg); load only modules of one driver and flavour",
	},
}
