package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/lab/uefi"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// Firmware starts a guest through UEFI with Secure Boot, instead of QEMU's direct start. This takes some
// seconds more.
type Firmware struct {
	// Variables are added to the firmware's store before the first start. With a PK among them Secure Boot is
	// on. Without one the firmware is in Setup Mode, and Linux has the keys of db nevertheless.
	Variables []uefi.Variable
	// Debian selects the boot chain of an installed Debian: the store has Microsoft's keys from the beginning
	// (so Variables must not contain PK, KEK, db), and shim, GRUB and the kernel come from a disk, signed by
	// Debian. Such a guest can restart (Guest.Reboot) and has a console for the test to type on. Without Debian,
	// QEMU passes the kernel to the firmware, which then does not check its signature; everything after that is
	// real.
	Debian bool
}

// OVMF's files, of the package ovmf: code that protects the variables from the guest, and the initial stores.
const (
	ovmf          = "/usr/share/OVMF/"
	ovmfCode      = ovmf + "OVMF_CODE_4M.secboot.fd"
	ovmfEmpty     = ovmf + "OVMF_VARS_4M.fd"
	ovmfMicrosoft = ovmf + "OVMF_VARS_4M.ms.fd"
)

// chainRecipe is part of the cache's name: increase it when the result of ci/lab/chain changes.
const chainRecipe = "1"

// arguments returns QEMU's arguments for a machine with this firmware, except those of the serial port. It
// makes files in dir.
func (f *Firmware) arguments(t testing.TB, c *Config, dir, initramfs, kernel string) []string {
	t.Helper()
	template := ovmfEmpty
	if f.Debian {
		template = ovmfMicrosoft
	}
	blank, err := os.ReadFile(template)
	if err != nil {
		t.Fatalf("the firmware for Secure Boot: %v (package ovmf; ci/e2e/setup installs it)", err)
	}
	flash := require.Value(uefi.Append(blank, f.Variables...))(t)
	variables := filepath.Join(dir, "variables.fd")
	require.NoError(t, os.WriteFile(variables, flash, 0o644))
	args := []string{
		// System management mode prevents the guest from writing the variables directly.
		"-machine", "q35,smm=on,vmport=off,memory-backend=ram", "-global", "driver=cfi.pflash01,property=secure,value=on",
		"-global", "ICH9-LPC.disable_s3=1",
		"-drive", "if=pflash,unit=0,format=raw,readonly=on,file=" + ovmfCode,
		"-drive", "if=pflash,unit=1,format=raw,file=" + variables,
	}
	if !f.Debian {
		return append(args, "-no-reboot", "-kernel", c.Kernel.signed, "-initrd", initramfs, "-append", kernel)
	}
	disk := filepath.Join(dir, "esp.img")
	makeESP(t, disk, c.Kernel.signed, initramfs, kernel)
	return append(args, "-drive", "if=none,id=esp,format=raw,file="+disk, "-device", "virtio-blk-pci,drive=esp,addr=0x4,bootindex=1")
}

// grubConfig is the path at which Debian's signed GRUB looks for its configuration.
const grubConfig = `set timeout=0
serial --unit=0 --speed=115200
terminal_output serial
search --set=root --file /vmlinuz
linux /vmlinuz %s
initrd /initramfs
boot
`

// makeESP makes the disk from which firmware starts, without mounting it: one FAT file system, no partitions.
func makeESP(t testing.TB, disk, kernel, initramfs, commandLine string) {
	t.Helper()
	const size = 96 << 20
	chain := cached(t, "chain-"+chainRecipe, func(path string) { tool.Must(t, filepath.Join(sourceDir(t), "chain"), path) })
	grub := disk + ".cfg"
	require.NoError(t, os.WriteFile(grub, fmt.Appendf(nil, grubConfig, commandLine), 0o644))
	require.NoError(t, os.WriteFile(disk, nil, 0o644))
	require.NoError(t, os.Truncate(disk, size))
	tool.Must(t, "mkfs.vfat", disk)
	tool.Must(t, "mmd", "-i", disk, "::/EFI", "::/EFI/BOOT", "::/EFI/debian")
	for to, from := range map[string]string{
		"EFI/BOOT/BOOTX64.EFI": filepath.Join(chain, "shimx64.efi"), "EFI/BOOT/grubx64.efi": filepath.Join(chain, "grubx64.efi"),
		"EFI/BOOT/mmx64.efi": filepath.Join(chain, "mmx64.efi"), "EFI/debian/grub.cfg": grub, "vmlinuz": kernel, "initramfs": initramfs,
	} {
		tool.Must(t, "mcopy", "-i", disk, from, "::/"+to)
	}
}
