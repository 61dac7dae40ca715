package preflight

import (
	"crypto/x509"
	"encoding/hex"
	"path/filepath"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/kmod/kmsg"
)

// maxKeys bounds /proc/keys in bytes: shim's list of forbidden keys has 250 lines.
const maxKeys = 4 << 20

// Key is a certificate that the kernel has, in one of its keyrings.
type Key struct {
	// "SB test db: 1aae…": subject, and subject key id or else serial number
	Name string `json:"name"`
}

// readKeys reads the names from /proc/keys; proc is "/proc". Without a keyring nothing is visible.
func readKeys(proc string) (keys []Key, seen bool) {
	text, err := bounded.Text(filepath.Join(proc, "keys"), maxKeys)
	if err != nil {
		return nil, false
	}
	for line := range strings.Lines(text) {
		switch kind, name := parseKey(line); kind {
		case "keyring":
			seen = true
		case "asymmetri":
			keys = append(keys, Key{name})
		}
	}
	slices.SortFunc(keys, func(a, b Key) int { return strings.Compare(a.Name, b.Name) })
	return slices.Compact(keys), seen
}

// parseKey parses a line of /proc/keys: "0fbf75c3 I------ 1 perm 1f030000 0 0 asymmetri SB test db:
// 1aae: X509.rsa 1aae []". The kernel cuts the type to nine letters. After the name of a
// certificate come its algorithm and the end of its id.
func parseKey(line string) (kind, name string) {
	fields := strings.Fields(line)
	if len(fields) < 9 {
		return "", ""
	}
	_, text, found := strings.Cut(line, " "+fields[7]+" ")
	if !found {
		return "", ""
	}
	if i := strings.LastIndex(text, ": X509."); i >= 0 {
		text = text[:i]
	}
	return fields[7], kmsg.Printable(strings.TrimSpace(text)) // not shortened: the id is at the end
}

// keyID returns the end of the name that the kernel gives to a certificate's key: the subject key
// id, or else the serial number as in the certificate.
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

// hasBuiltin says whether the kernel has the distribution's key for modules that a signature names by
// its issuer.
func hasBuiltin(keys []Key, issuer string) bool {
	known, ok := distros.FindModuleKey(issuer)
	return ok && slices.ContainsFunc(keys, func(key Key) bool {
		return strings.Contains(key.Name, known.Builtin)
	})
}

// hasKey says whether a key's name has this subject, or ends with these hexadecimal digits; "" is
// any.
func hasKey(keys []Key, subject, id string) bool {
	return subject+id != "" && slices.ContainsFunc(keys, func(key Key) bool {
		name := key.Name
		end := ""
		if at := strings.LastIndex(name, ": "); at >= 0 {
			name, end = name[:at], name[at+2:]
		}
		// The kernel writes the organisation before the common name, unless they begin alike.
		return (id == "" || id == end) &&
			(subject == "" || subject == name || strings.HasSuffix(name, ": "+subject))
	})
}
