package preflight

import (
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/distros/bounded"
)

const (
	// platform is the keyring of the firmware's db.
	platform = ".platform"

	maxKeys    = 4 << 20  // bytes of /proc/keys: shim's list of forbidden keys has 250 lines
	maxMembers = 64 << 10 // bytes of a keyring's content: 16 Ki keys
	maxNested  = 4        // .secondary_trusted_keys contains .builtin_trusted_keys and .machine
)

// trustedRings returns the keyrings in which kernels look for the keys of modules; the last but one is the
// name before 4.5. The kernels of distributions (Debian, Ubuntu, Red Hat, SUSE) use the platform keyring,
// those of kernel.org do not.
func trustedRings() []string {
	return []string{".builtin_trusted_keys", ".secondary_trusted_keys", ".machine", ".system_keyring", platform}
}

// Key is a key that the kernel trusts for modules.
type Key struct {
	Keyring string `json:"keyring,omitempty"` // "" when the kernel does not show the content of its keyrings
	Name    string `json:"name"`              // "SB test db: 1aae…": subject, and subject key id or else serial number
}

// kernelKeys holds the keys that the kernel trusts, as far as they are visible.
type kernelKeys struct {
	Keys []Key
	Seen bool // there are keyrings
	// Exact says that the keyring of each key is known. Otherwise Keys has all certificates of the kernel.
	Exact bool
}

// procKey is a line of /proc/keys.
type procKey struct {
	serial     int32
	kind, text string
}

// readKeys reads the names from /proc/keys and asks for the content of the keyrings; proc is "/proc", and members
// returns the serial numbers of the keys in a keyring, as [members] does. The zero value means that nothing is
// visible.
func readKeys(proc string, members func(keyring int32) ([]int32, error)) kernelKeys {
	text, err := bounded.Text(filepath.Join(proc, "keys"), maxKeys)
	if err != nil {
		return kernelKeys{}
	}
	all := map[int32]procKey{}
	for line := range strings.Lines(text) {
		if k, ok := parseKey(line); ok {
			all[k.serial] = k
		}
	}
	k := kernelKeys{Exact: true}
	for _, name := range trustedRings() {
		for serial, key := range all {
			if key.kind == "keyring" && key.text == name {
				k.Seen = true
				k.walk(members, all, serial, name, 0)
			}
		}
	}
	if k.Seen && !k.Exact { // every certificate may be trusted
		for _, key := range all {
			if key.kind == "asymmetri" {
				k.add(Key{Name: key.text})
			}
		}
	}
	slices.SortStableFunc(k.Keys, func(a, b Key) int { return strings.Compare(a.Name, b.Name) })
	return k
}

// walk adds the keys of a keyring and of the keyrings in it.
func (k *kernelKeys) walk(members func(int32) ([]int32, error), all map[int32]procKey, keyring int32, name string, depth int) {
	serials, err := members(keyring)
	if err != nil {
		k.Exact = false
		return
	}
	for _, serial := range serials {
		switch m := all[serial]; {
		case m.kind == "asymmetri":
			k.add(Key{Keyring: name, Name: m.text})
		case m.kind == "keyring" && depth < maxNested:
			k.walk(members, all, serial, m.text, depth+1)
		}
	}
}

func (k *kernelKeys) add(key Key) {
	if !slices.ContainsFunc(k.Keys, func(have Key) bool {
		return have.Name == key.Name && (have.Keyring == key.Keyring || key.Keyring == "")
	}) {
		k.Keys = append(k.Keys, key)
	}
}

// parseKey parses a line of /proc/keys: "0fbf75c3 I------ 1 perm 1f030000 0 0 asymmetri SB test db: 1aae:
// X509.rsa 1aae []". The kernel cuts the type to nine letters. After the name of a certificate come its
// algorithm and the end of its id, after the name of a keyring the number of its keys.
func parseKey(line string) (procKey, bool) {
	fields := strings.Fields(line)
	if len(fields) < 9 {
		return procKey{}, false
	}
	serial, err := strconv.ParseUint(fields[0], 16, 32)
	if err != nil {
		return procKey{}, false
	}
	k := procKey{serial: int32(uint32(serial)), kind: fields[7]} //nolint:gosec // the kernel prints the bits of an int32
	_, text, found := strings.Cut(line, " "+k.kind+" ")
	if !found {
		return procKey{}, false
	}
	text = strings.TrimSpace(text)
	end := ": "
	if k.kind == "asymmetri" {
		end = ": X509."
	}
	if i := strings.LastIndex(text, end); i >= 0 {
		text = text[:i]
	}
	k.text = strings.Map(func(r rune) rune { // not shortened: the id is at the end
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text)
	return k, true
}

// members asks the kernel for the keys of a keyring with KEYCTL_READ, which root may do with the system's
// keyrings.
func members(keyring int32) ([]int32, error) {
	buf := make([]byte, 1<<10)
	for {
		n, err := unix.KeyctlBuffer(unix.KEYCTL_READ, int(keyring), buf, 0)
		if err != nil {
			return nil, fmt.Errorf("read the keyring %08x: %w", uint32(keyring), err) //nolint:gosec // as /proc/keys prints it
		}
		if n > maxMembers {
			return nil, errors.New("the keyring is too large")
		}
		if n <= len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, n)
	}
	var serials []int32
	for ; len(buf) >= 4; buf = buf[4:] {
		serials = append(serials, int32(binary.NativeEndian.Uint32(buf))) //nolint:gosec // the kernel returns int32
	}
	return serials, nil
}

// keyID returns the end of the name that the kernel gives to a certificate's key: the subject key id, or else
// the serial number as in the certificate.
func keyID(cert *x509.Certificate) string {
	if len(cert.SubjectKeyId) > 0 {
		return hex.EncodeToString(cert.SubjectKeyId)
	}
	return hex.EncodeToString(serialBytes(cert))
}

// serialBytes returns the content of the serial number in DER, which is never negative.
func serialBytes(cert *x509.Certificate) []byte {
	b := cert.SerialNumber.Bytes()
	if len(b) == 0 || b[0]&0x80 != 0 {
		b = append([]byte{0}, b...)
	}
	return b
}

// find returns the key whose name has this subject, or ends with these hexadecimal digits; "" is any.
func (k kernelKeys) find(subject, id string) (Key, bool) {
	i := slices.IndexFunc(k.Keys, func(key Key) bool {
		name, end := key.Name, ""
		if at := strings.LastIndex(name, ": "); at >= 0 {
			name, end = name[:at], name[at+2:]
		}
		// The kernel writes the organisation before the common name, unless they begin alike.
		return (id == "" || id == end) && (subject == "" || subject == name || strings.HasSuffix(name, ": "+subject))
	})
	if i < 0 || subject == "" && id == "" {
		return Key{}, false
	}
	return k.Keys[i], true
}
