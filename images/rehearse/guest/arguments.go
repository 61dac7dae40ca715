package guest

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/rehearse/wire"
)

// firstFD is the file descriptor in QEMU of the first file that it is started with.
const firstFD = 3

// The addresses of the PCI devices. Those of disks and GPUs follow.
const (
	firstGPU  = 5
	portSlot  = 0x10
	firstDisk = 0x12
	maxGPUs   = portSlot - firstGPU
	maxDisks  = 0x1f - firstDisk
)

// arguments returns all of QEMU's arguments, and makes files in dir. A fake GPU needs memory that
// can be shared with another process: the machine has to name the backend "ram".
func (c *Config) arguments(dir string) ([]string, error) {
	args := []string{
		"-accel", c.Accel, "-cpu", c.processor(), "-smp", strconv.Itoa(c.Cores), "-m", strconv.Itoa(c.MemoryMB),
		"-object", fmt.Sprintf("memory-backend-memfd,id=ram,size=%dM,share=on", c.MemoryMB),
		"-nodefaults", "-no-user-config", "-display", "none",
		"-chardev", fmt.Sprintf("socket,id=port,fd=%d", firstFD),
		"-device", fmt.Sprintf("virtio-serial-pci,addr=0x%x", portSlot),
		"-device", "virtserialport,chardev=port,name=agent",
		"-chardev", fmt.Sprintf("socket,id=console,fd=%d", firstFD+1),
		"-serial", "chardev:console",
	}
	for i := range c.GPUs {
		args = append(args, "-device",
			fmt.Sprintf("x-pci-proxy-dev,id=gpu%d,fd=%d,addr=0x%x", i, firstFD+2+i, firstGPU+i))
	}
	initramfs, err := c.addDisks(&args, dir)
	if err != nil {
		return nil, err
	}
	commandLine := c.commandLine()
	if c.Firmware == nil {
		args = append(args, "-machine", "pc,memory-backend=ram")
		return append(args, direct(c.Kernel.Image, initramfs, commandLine)...), nil
	}
	more, err := c.Firmware.arguments(c.Kernel, dir, initramfs, commandLine)
	return append(args, more...), err
}

// direct are the arguments by which QEMU starts a kernel itself. After a panic it ends.
func direct(kernel, initramfs, commandLine string) []string {
	return []string{"-no-reboot", "-kernel", kernel, "-initrd", initramfs, "-append", commandLine}
}

// processor is the one that QEMU has to show. In software it is x86-64-v2, which programs of RHEL 9
// and SLES 16 need; instructions for AES save time. RHEL 10 needs x86-64-v3, thus KVM.
func (c *Config) processor() string {
	if c.Accel == KVM {
		return "host"
	}
	return "Nehalem,+aes,+pclmulqdq"
}

// commandLine returns the kernel's command line. Warnings go to the console too, for a guest that
// hangs. The log keeps all messages of the driver, each with its time.
func (c *Config) commandLine() string {
	const own = "console=ttyS0 loglevel=5 panic=-1 log_buf_len=4M printk.time=1 mitigations=off nosoftlockup "
	return strings.TrimSpace(own + c.CommandLine)
}

// disk is a disk of the guest and its file here.
type disk struct {
	wire.Disk
	file string
}

// disks returns those of Images and Disks, in their order.
func (c *Config) disks() (all []disk) {
	for i, name := range slices.Sorted(maps.Keys(c.Images)) {
		all = append(all, disk{wire.Disk{Serial: fmt.Sprint("image", i), Path: imageDir(name)}, c.Images[name].Disk})
	}
	for i, path := range slices.Sorted(maps.Keys(c.Disks)) {
		all = append(all, disk{wire.Disk{Serial: fmt.Sprint("disk", i), Path: path}, c.Disks[path]})
	}
	return all
}

// addDisks adds the virtio disks, which the guest finds by their serial numbers, and returns the
// initramfs that mounts them.
func (c *Config) addDisks(args *[]string, dir string) (initramfs string, err error) {
	slot := firstDisk
	add := func(serial, file, options string) {
		drive := fmt.Sprintf("if=none,id=%s,format=raw,cache=unsafe,%s,file=%s",
			serial, options, quoted(file))
		device := fmt.Sprintf("virtio-blk-pci,drive=%s,serial=%s,addr=0x%x", serial, serial, slot)
		*args = append(*args, "-drive", drive, "-device", device)
		slot++
	}
	if c.System != nil {
		add("root", c.System.Disk, "snapshot=on") // writes go to a temporary file
		*args = append(*args, c.System.Arguments...)
		return c.System.Initramfs, nil
	}
	variable := filepath.Join(dir, "var.ext4")
	err = makeVar(variable)
	if err != nil {
		return "", err
	}
	add(wire.HostDisk, c.Kernel.Disk, "readonly=on")
	// a full disk is an error in the guest, for which QEMU would otherwise stop it
	add(wire.VarDisk, variable, "readonly=off,werror=report")
	for _, disk := range c.disks() {
		add(disk.Serial, disk.file, "readonly=on")
	}
	initramfs = filepath.Join(dir, "initramfs")
	return initramfs, c.writeInitramfs(initramfs)
}

// quoted returns the name of a file as a part of an argument of QEMU.
func quoted(file string) string { return strings.ReplaceAll(file, ",", ",,") }

func findMke2fs() (string, error) {
	program, err := exec.LookPath("mke2fs")
	if err != nil {
		program, err = exec.LookPath("/sbin/mke2fs") // which is in few users' PATH
	}
	if err != nil {
		return "", failure.New(failure.Unexpected, "mke2fs is not on this machine: install e2fsprogs")
	}
	return program, nil
}

// makeVar makes the disk that the guest writes to, as a sparse file.
func makeVar(path string) error {
	program, err := findMke2fs()
	if err != nil {
		return err
	}
	command := exec.Command(program, "-q", "-F", "-t", "ext4", "-O", "^has_journal", "-m", "0",
		"-E", "lazy_itable_init=1", path, "8192M")
	command.Env = append(os.Environ(), "LC_ALL=C")
	out, err := command.CombinedOutput()
	if strings.Contains(strings.ToLower(string(out)), syscall.ENOSPC.Error()) {
		err = syscall.ENOSPC
	}
	if err != nil {
		return fmt.Errorf("make the guest's disk %s: %w: %s", path, err, tail(string(out)))
	}
	return nil
}
