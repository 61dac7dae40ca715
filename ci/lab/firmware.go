package lab

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testcert"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// Firmware starts a guest through UEFI with Secure Boot, instead of QEMU's direct start. This takes
// some seconds more.
type Firmware struct {
	// in db: firmware starts what it signed, and Linux has it in its keyring .platform
	Key *testcert.Pair
	// there is no platform key, so Secure Boot is off; otherwise that is Key
	SetupMode bool
	// ValidationOff is the state after `mokutil --disable-validation`: shim starts anything, and
	// Linux assumes that Secure Boot is off.
	ValidationOff bool
	// Debian selects the boot chain of an installed Debian: the store has Microsoft's keys from the
	// beginning (so without Key), and shim, GRUB and the kernel come from a disk, signed by Debian.
	// Such a guest can restart (Guest.Reboot) and has a console for the test to type on. Without
	// Debian, QEMU passes the kernel to the firmware, which then does not check its signature;
	// everything after that is real.
	Debian bool
}

// OVMF's files, of the package ovmf: code that protects the variables from the guest, and the
// initial stores.
const (
	ovmf          = "/usr/share/OVMF/"
	ovmfCode      = ovmf + "OVMF_CODE_4M.secboot.fd"
	ovmfEmpty     = ovmf + "OVMF_VARS_4M.fd"
	ovmfMicrosoft = ovmf + "OVMF_VARS_4M.ms.fd"
)

// chainRecipe is part of the cache's name: increase it when the result of ci/lab/chain changes.
const chainRecipe = "1"

// arguments returns QEMU's arguments for a machine with this firmware, except those of the serial
// port. It makes files in dir.
func (f *Firmware) arguments(t testing.TB, c *Config, dir, initramfs, kernel string) []string {
	t.Helper()
	template := ovmfEmpty
	if f.Debian {
		template = ovmfMicrosoft
	}
	variables := filepath.Join(dir, "variables.fd")
	if _, err := tool.Run(t.Context(), "", nil, "cp", template, variables); err != nil {
		t.Fatalf("the firmware for Secure Boot: %v (package ovmf; ci/e2e/setup installs it)", err)
	}
	f.poke(t, variables)
	args := []string{
		// System management mode prevents the guest from writing the variables directly.
		"-machine", "q35,smm=on,vmport=off,memory-backend=ram", "-global", "driver=cfi.pflash01,property=secure,value=on",
		"-global", "ICH9-LPC.disable_s3=1",
		"-drive", "if=pflash,unit=0,format=raw,readonly=on,file=" + ovmfCode,
		"-drive", "if=pflash,unit=1,format=raw,file=" + variables,
	}
	if !f.Debian {
		return append(
			args,
			"-no-reboot",
			"-kernel",
			c.Kernel.signed,
			"-initrd",
			initramfs,
			"-append",
			kernel,
		)
	}
	disk := filepath.Join(dir, "esp.img")
	makeESP(t, disk, c.Kernel.signed, initramfs, kernel)
	return append(
		args,
		"-drive",
		"if=none,id=esp,format=raw,file="+disk,
		"-device",
		"virtio-blk-pci,drive=esp,addr=0x4,bootindex=1",
	)
}

// poke writes variables into the firmware's store: only changes through the firmware need
// signatures. The GUIDs are of shim's variables, and of a signature's owner, which may be any.
func (f *Firmware) poke(t testing.TB, store string) {
	t.Helper()
	value := store + ".value"
	if f.ValidationOff {
		require.NoError(t, os.WriteFile(value, []byte{1}, 0o644))
		tool.Must(
			t,
			"flash-var",
			"-g",
			"605dab50-e046-4300-abb6-3dd810dd8b23",
			store,
			"MokSBState",
			value,
		)
		hideMokSBState(t, store)
	}
	if f.Key == nil {
		return
	}
	certificate := store + ".pem"
	require.NoError(t, os.WriteFile(certificate, []byte(f.Key.CertPEM()), 0o644))
	tool.Must(
		t,
		"cert-to-efi-sig-list",
		"-g",
		"77fa9abd-0359-4d32-bd60-28f4e78f784b",
		certificate,
		value,
	)
	names := []string{"db", "KEK", "PK"}
	if f.SetupMode {
		names = names[:1]
	}
	for _, name := range names {
		tool.Must(t, "flash-var", store, name, value)
	}
}

// hideMokSBState takes the attributes away that flash-var gives every variable, and with which shim
// ignores this one: only NonVolatile and BootService are left. They are at 4 in the header of 60
// bytes before the name, which is in UTF-16.
func hideMokSBState(t testing.TB, store string) {
	t.Helper()
	flash := require.Value(os.ReadFile(store))(t)
	name := bytes.Index(flash, []byte("M\x00o\x00k\x00S\x00B\x00S\x00t\x00a\x00t\x00e\x00"))
	if name < 60 {
		t.Fatalf("%s: flash-var has not added MokSBState", store)
	}
	flash[name-60+4] = 0x03
	require.NoError(t, os.WriteFile(store, flash, 0o644))
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
