package guest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"
	"unicode/utf16"

	"github.com/driver-container/driver-container/distros/failure"
)

// Firmware starts a guest through UEFI with Secure Boot, instead of QEMU's direct start. QEMU
// passes the kernel to the firmware, which then does not check its signature; everything after that
// is real.
type Firmware struct {
	// Certificates are in db, in DER: firmware starts what they signed, and Linux has them in its
	// keyring .platform.
	Certificates [][]byte
	SetupMode    bool // there is no platform key, so Secure Boot is off
	// ValidationOff is the state after `mokutil --disable-validation`: shim starts anything, and
	// Linux assumes that Secure Boot is off.
	ValidationOff bool
	// Variables is a file: the store of variables in the beginning, with a platform key. "": a store
	// without any, which gets a key of its own.
	Variables string
	// Disk makes the disk from which the firmware starts, out of the guest's initramfs and the
	// command line of its kernel. Such a guest can restart. nil: there is none.
	Disk func(initramfs, commandLine string) (file string, err error)
}

// firmwareFiles are where distributions have OVMF with Secure Boot: the code that protects the
// variables from the guest, and the store without variables.
var firmwareFiles = []struct{ code, variables string }{
	{"/usr/share/OVMF/OVMF_CODE_4M.secboot.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd"}, // Debian
	{"/usr/share/edk2/ovmf/OVMF_CODE.secboot.fd", "/usr/share/edk2/ovmf/OVMF_VARS.fd"},
}

// arguments returns QEMU's arguments for a machine with this firmware. It makes files in dir.
func (f *Firmware) arguments(kernel *Kernel, dir, initramfs, commandLine string) ([]string, error) {
	code, store, err := f.files()
	if err != nil {
		return nil, err
	}
	flash, err := f.fillStore(store)
	if err != nil {
		return nil, fmt.Errorf("write the firmware's variables: %w", err)
	}
	variables := filepath.Join(dir, "variables.fd")
	err = os.WriteFile(variables, flash, 0o600)
	if err != nil {
		return nil, err
	}
	args := []string{
		// System management mode prevents the guest from writing the variables directly.
		"-machine", "q35,smm=on,vmport=off,memory-backend=ram",
		"-global", "driver=cfi.pflash01,property=secure,value=on",
		"-global", "ICH9-LPC.disable_s3=1",
		"-drive", "if=pflash,unit=0,format=raw,readonly=on,file=" + quoted(code),
		"-drive", "if=pflash,unit=1,format=raw,file=" + quoted(variables),
	}
	if f.Disk == nil {
		return append(args, direct(kernel.Signed, initramfs, commandLine)...), nil
	}
	disk, err := f.Disk(initramfs, commandLine)
	if err != nil {
		return nil, fmt.Errorf("make the disk that the firmware starts from: %w", err)
	}
	return append(args, "-drive", "if=none,id=esp,format=raw,file="+quoted(disk),
		"-device", "virtio-blk-pci,drive=esp,addr=0x4,bootindex=1"), nil
}

func (f *Firmware) files() (code, variables string, err error) {
	for _, files := range firmwareFiles {
		_, err := os.Stat(files.code)
		if err != nil {
			continue
		}
		if f.Variables != "" {
			return files.code, f.Variables, nil
		}
		return files.code, files.variables, nil
	}
	return "", "", failure.New(failure.Unexpected, "a guest with Secure Boot needs the firmware OVMF, "+
		"which is not on this machine: install ovmf (Debian, Ubuntu) or edk2-ovmf (RHEL, Fedora)")
}

// The GUIDs of the variables' owners and of what is in them, as firmware writes them.
var (
	globalVariable   = guid(0x8be4df61, 0x93ca, 0x11d2, "aa0d00e098032b8c")
	securityDatabase = guid(0xd719b2cb, 0x3d3a, 0x4596, "a3bcdad00e67656f")
	shimLock         = guid(0x605dab50, 0xe046, 0x4300, "abb63dd810dd8b23")
	x509Certificate  = guid(0xa5c059a1, 0x94e4, 0x4aa7, "87b5ab155c2bf072")
	variableStore    = guid(0xaaf32c78, 0x947b, 0x439a, "a1802e144ec37792")
	signatureOwner   = guid(0x77fa9abd, 0x0359, 0x4d32, "bd6028f4e78f784b") // any
)

func guid(a uint32, b, c uint16, rest string) []byte {
	out := binary.LittleEndian.AppendUint32(nil, a)
	out = binary.LittleEndian.AppendUint16(out, b)
	out = binary.LittleEndian.AppendUint16(out, c)
	_, _ = fmt.Sscanf(rest, "%x", &rest)
	return append(out, rest...)
}

// The attributes of variables (UEFI, section 8.2).
const (
	bootOnly      = 0x03 // non-volatile, boot services
	authenticated = 0x27 // also at run time, and changed by what is signed with a later time
)

// fillStore returns a file of the firmware's store with further variables: only changes through the
// firmware need signatures.
func (f *Firmware) fillStore(path string) ([]byte, error) {
	flash, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s, err := openStore(flash)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if f.ValidationOff {
		err := s.add("MokSBState", shimLock, bootOnly, []byte{1})
		if err != nil {
			return nil, err
		}
	}
	if len(f.Certificates) > 0 {
		err := s.add("db", securityDatabase, authenticated, signatures(f.Certificates))
		if err != nil {
			return nil, err
		}
	}
	if f.SetupMode || f.Variables != "" {
		return flash, nil
	}
	owner, err := ownCertificate()
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"KEK", "PK"} {
		err := s.add(name, globalVariable, authenticated, signatures([][]byte{owner}))
		if err != nil {
			return nil, err
		}
	}
	return flash, nil
}

// ownCertificate makes a certificate whose key nobody has.
func ownCertificate() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().AddDate(10, 0, 0)}
	return x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
}

// signatures returns the lists of certificates that db, KEK and PK hold (UEFI, section 32.4.1).
func signatures(certificates [][]byte) (lists []byte) {
	for _, der := range certificates {
		size := uint32(len(signatureOwner) + len(der))
		lists = append(lists, x509Certificate...)
		lists = binary.LittleEndian.AppendUint32(lists, 28+size)
		lists = binary.LittleEndian.AppendUint32(lists, 0) // of a header
		lists = binary.LittleEndian.AppendUint32(lists, size)
		lists = append(lists, signatureOwner...)
		lists = append(lists, der...)
	}
	return lists
}

// store is the free part of a firmware's store of variables (EDK2, VariableFormat.h).
type store struct{ free []byte }

const (
	volumeHeader   = 48 // where the size of the volume's header is
	storeHeader    = 28
	variableHeader = 60
	variableStart  = 0x55aa
	variableAdded  = 0x3f
)

func openStore(flash []byte) (*store, error) {
	unknown := errors.New("it is no store of variables of OVMF")
	if len(flash) < volumeHeader+2 {
		return nil, unknown
	}
	at := int(binary.LittleEndian.Uint16(flash[volumeHeader:]))
	if len(flash) < at+storeHeader || !bytes.Equal(flash[at:at+16], variableStore) {
		return nil, unknown
	}
	size := int(binary.LittleEndian.Uint32(flash[at+16:]))
	if size < storeHeader || at+size > len(flash) {
		return nil, unknown
	}
	end := at + size
	for at += storeHeader; at+variableHeader <= end; {
		header := flash[at:]
		if binary.LittleEndian.Uint16(header) != variableStart {
			break
		}
		name := int(binary.LittleEndian.Uint32(header[36:]))
		data := int(binary.LittleEndian.Uint32(header[40:]))
		if name > size || data > size {
			return nil, unknown
		}
		at = aligned(at + variableHeader + name + data)
	}
	if at > end {
		return nil, unknown
	}
	return &store{free: flash[at:end]}, nil
}

func aligned(at int) int { return (at + 3) &^ 3 }

// add writes a variable into the first free bytes.
func (s *store) add(name string, owner []byte, attributes uint32, data []byte) error {
	var title []byte
	for _, unit := range append(utf16.Encode([]rune(name)), 0) {
		title = binary.LittleEndian.AppendUint16(title, unit)
	}
	header := binary.LittleEndian.AppendUint16(nil, variableStart)
	header = append(header, variableAdded, 0)
	header = binary.LittleEndian.AppendUint32(header, attributes)
	header = append(header, make([]byte, 28)...) // a counter, a time and an index, for signed changes
	header = binary.LittleEndian.AppendUint32(header, uint32(len(title)))
	header = binary.LittleEndian.AppendUint32(header, uint32(len(data)))
	header = append(header, owner...)
	variable := append(append(header, title...), data...)
	if aligned(len(variable)) > len(s.free) {
		return fmt.Errorf("no space for the variable %s of %d bytes", name, len(data))
	}
	copy(s.free, variable)
	s.free = s.free[aligned(len(variable)):]
	return nil
}
