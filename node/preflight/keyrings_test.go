package preflight

import (
	"strings"
	"testing"
	"unicode"

	"github.com/driver-container/driver-container/ci/testkit/assert"
)

// TestThisKernel reads the keyrings of the machine that runs the tests, whatever they are.
func TestThisKernel(t *testing.T) {
	t.Parallel()
	k := readKeys("/proc", members)
	t.Logf("keyrings seen %v, exact %v, %v", k.Seen, k.Exact, k.Keys)
	assert.Errorf(t, assert.Err(members(-99)), "a keyring that does not exist has members")
}

// FuzzParseKey: no line causes a panic, and names are fit for a terminal.
func FuzzParseKey(f *testing.F) {
	f.Add("0fbf75c3 I--Q---     1 perm 1f3f0000     0 65534 keyring   _uid_ses.0: 1")
	f.Add("00000013 I------     1 perm 1f030000     0     0 asymmetri SB test db: 1aae: X509.rsa 1aae []")
	f.Fuzz(func(t *testing.T, line string) {
		k, ok := parseKey(line)
		if ok && strings.ContainsFunc(k.text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q", k.text)
		}
	})
}
