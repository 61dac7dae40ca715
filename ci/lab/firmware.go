package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testcert"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/images/rehearse/guest"
)

// Firmware starts a guest through UEFI with Secure Boot, instead of QEMU's direct start. This takes
// some seconds more.
type Firmware struct {
	// in db: firmware starts what it signed, and Linux has it in its keyring .platform
	Key *testcert.Pair
	// there is no platform key, so Secure Boot is off
	SetupMode bool
	// ValidationOff is the state after `mokutil --disable-validation`: shim starts anything, and
	// Linux assumes that Secure Boot is off.
	ValidationOff bool
	// Debian selects the boot chain of an installed Debian: the store has Microsoft's keys from the
	// beginning (so without Key), and shim, GRUB and the kernel come from a disk, signed by Debian.
	// Such a guest can restart (Guest.Reboot) and has a console for the test to type on.
	Debian bool
}

// microsoft is the initial store with Microsoft's keys, of the package ovmf.
const microsoft = "/usr/share/OVMF/OVMF_VARS_4M.ms.fd"

// chainRecipe is part of the cache's name: increase it when the result of ci/lab/chain changes.
const chainRecipe = "1"

func (f *Firmware) guest(t testing.TB, kernel *HostKernel) *guest.Firmware {
	t.Helper()
	made := &guest.Firmware{SetupMode: f.SetupMode, ValidationOff: f.ValidationOff}
	if f.Key != nil {
		made.Certificates = [][]byte{f.Key.Certificate.Raw}
	}
	if f.Debian {
		made.Variables = microsoft
		made.Disk = func(initramfs, commandLine string) (string, error) {
			disk := filepath.Join(t.TempDir(), "esp.img")
			makeESP(t, disk, kernel.guest.Signed, initramfs, commandLine)
			return disk, nil
		}
	}
	return made
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

// makeESP makes the disk from which firmware starts, without mounting it: one FAT file system, no
// partitions.
func makeESP(t testing.TB, disk, kernel, initramfs, commandLine string) {
	t.Helper()
	const size = 96 << 20
	chain := cached(
		t,
		"chain-"+chainRecipe,
		func(path string) { tool.Must(t, filepath.Join(sourceDir(t), "chain"), path) },
	)
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
