package preflight

import (
	"strings"
	"testing"
	"unicode"

	"github.com/driver-container/driver-container/ci/testkit/assert"
)

// FuzzParseKey: no line causes a panic, and names are fit for a terminal.
func FuzzParseKey(f *testing.F) {
	f.Add("0fbf75c3 I--Q---     1 perm 1f3f0000     0 65534 keyring   _uid_ses.0: 1")
	f.Add("00000013 I------     1 perm 1f030000     0     0 asymmetri SB test db: 1aae: X509.rsa 1aae []")
	f.Fuzz(func(t *testing.T, line string) {
		_, name := parseKey(line)
		assert.Equalf(t, false, strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }), "%q", name)
	})
}
