package preflight

import (
	"crypto"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/ci/testfile"
	"github.com/driver-container/driver-container/kmod/sign"
)

// Verdicts are compared with the reaction of Linux 6.1 (Debian's) to the same modules in a virtual machine,
// with and without UEFI and Secure Boot: errno, and whether the module loaded.

// judged returns the result of the check Signing without the others.
func judged(t *testing.T, in Input) Check {
	t.Helper()
	in.defaults()
	r := checkSigning(t.Context(), &in)
	return Check{Name: Signing, Status: r.status, Finding: r.finding, Fix: r.fix, Signatures: r.detail}
}

// TestSignatures: the rows of these measurements.
func TestSignatures(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	// The position of the signature proper, from the end: its last byte is the last of the DER.
	lastOfSignature := -tail - 1
	machines := map[string]Input{}
	at := func(s state, sha512 bool) Input {
		key := fmt.Sprint(s, sha512)
		if _, made := machines[key]; !made {
			m, in := b.machine(s)
			if sha512 {
				m.write("host/sbin/modprobe", "x")
				m.write("host/usr/lib/modules/"+release+"/modules.alias", "# x\nalias crypto-sha512 sha512_generic\n")
			}
			machines[key] = in
		}
		return machines[key]
	}
	for _, c := range []struct {
		name                   string
		by                     *sign.Signer
		hash                   crypto.Hash
		edit                   func([]byte) []byte
		verdict                Verdict
		secure, locked, setup  Status
		find                   string
		unknownToUs, sha512too bool
	}{
		{"signed, in db", b.db, crypto.SHA256, nil, Trusted, OK, OK, OK, "which the kernel knows (keyring .platform)", false, false},
		{"without a subject key id", b.without, crypto.SHA256, nil, Trusted, OK, OK, OK, `"SnakeOil" (key 0080, sha256)`, false, false},
		{"sha512, not there", b.db, crypto.SHA512, nil, NoHash, Blocked, Blocked, OK, "neither has sha512 nor can load it", false, false},
		{"sha512, loaded when asked for", b.db, crypto.SHA512, nil, Trusted, OK, OK, OK, "loads sha512 when it is asked", false, true},
		{"another key", b.other, crypto.SHA256, nil, ForeignKey, Blocked, Blocked, OK, "a key that the kernel does not know", false, false},
		{"another key, sha512", b.other, crypto.SHA512, nil, NoHash, Blocked, Blocked, OK, "sha512", false, false},
		{"another key, sha512 at hand", b.other, crypto.SHA512, nil, ForeignKey, Blocked, Blocked, OK, "does not know", false, true},
		{"issued by a certificate in db", b.leaf, crypto.SHA256, nil, ForeignKey, Blocked, Blocked, OK, `"Leaf"`, false, false},
		{"a byte of the signature", b.db, crypto.SHA256, flip(lastOfSignature), Changed, Blocked, Blocked, Blocked, "the signature does not hold", false, false},
		{"a byte of the module", b.db, crypto.SHA256, flip(1000), Changed, Blocked, Blocked, Blocked, "the signature does not hold", false, false},
		{"a byte of the module, another key", b.other, crypto.SHA256, flip(1000), ForeignKey, Blocked, Blocked, OK, "does not know", false, false},
		{"broken DER", b.db, crypto.SHA256, func(d []byte) []byte { return flip(len(plainModule))(d) }, Malformed, Blocked, Blocked, Blocked, "broken signature", false, false},
		{"length too large", b.db, crypto.SHA256, flip(-28 - 4), Malformed, Blocked, Blocked, Blocked, "broken signature", false, false},
		{"not PKCS#7", b.db, crypto.SHA256, flip(-28 - 10), Unsupported, Blocked, Blocked, OK, "does not know", false, false},
		{"the text is cut", b.db, crypto.SHA256, func(d []byte) []byte { return d[:len(d)-1] }, Unsigned, Blocked, Blocked, OK, "have no signature", false, false},
		{"something follows", b.db, crypto.SHA256, func(d []byte) []byte { return append(d, 0) }, Unsigned, Blocked, Blocked, OK, "have no signature", false, false},
		{"stripped", b.db, crypto.SHA256, func([]byte) []byte { return plainModule }, Unsigned, Blocked, Blocked, OK, "have no signature", false, false},
		{"certificate not known here", b.db, crypto.SHA256, nil, ProbablyTrusted, OK, OK, OK, "probably knows", true, false},
		{"issuer's name only", b.leaf, crypto.SHA256, nil, ProbablyTrusted, OK, OK, OK, "probably knows", true, false},
		{"stranger, certificate not known here", b.other, crypto.SHA256, nil, ProbablyForeign, Warning, Warning, OK, "no key of that name", true, false},
	} {
		path := b.signed(c.by, c.hash, c.edit)
		for s, want := range map[state]Status{secure: c.secure, locked: c.locked, setup: c.setup} {
			in := at(s, c.sha512too)
			in.Load = []Loading{{"nvidia", path}}
			if in.Certificate = c.by.Certificate; c.unknownToUs {
				in.Certificate = nil
			}
			got := judged(t, in)
			if got.Status != want || got.Signatures == nil || got.Signatures.Modules[0].Verdict != c.verdict || !strings.Contains(got.Finding, c.find) && want != OK {
				t.Errorf("%s, %v: %s: %s (%+v)\nwant %s, %s: %s", c.name, s, got.Status, got.Finding, got.Signatures, want, c.verdict, c.find)
			}
			if want != OK && got.Fix == "" {
				t.Errorf("%s: no fix", c.name)
			}
		}
	}
}

// TestEnrol: which command enrols the key, and when no key can be enrolled.
func TestEnrol(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	path := b.signed(b.other, crypto.SHA256, nil)
	m, in := b.machine(secure)
	in.Load, in.Certificate = []Loading{{"nvidia", path}, {"nvidia-uvm", path}}, b.other.Certificate
	got := judged(t, in)
	command := "mokutil --import /state/nvidia-driver/module-signing.der"
	if fix := m.rename(got.Fix); !strings.Contains(fix, "`"+command+"`") || !strings.Contains(fix, "restart the machine") || !strings.Contains(fix, "MokManager") ||
		!strings.Contains(fix, "switch Secure Boot off") || m.rename(got.Signatures.Enrol) != command || strings.Contains(fix, "waiting") {
		t.Errorf("%s, %+v", fix, got.Signatures)
	}
	assert.Contains(t, got.Finding, `the modules are signed by "Somebody else" (key ff, sha256), a key that the kernel does not know`)
	m.write("sys/firmware/efi/efivars/MokNew-605dab50-e046-4300-abb6-3dd810dd8b23", "x")
	if got = judged(t, in); !strings.Contains(got.Fix, "waiting to be confirmed") {
		t.Error(got.Fix)
	}
	require.NoError(t, os.RemoveAll(filepath.Join(m.dir, "sys/firmware")))
	if got = judged(t, in); !strings.Contains(got.Fix, "not started by UEFI") || got.Signatures.Enrol != "" || !strings.Contains(got.Fix, "switch module.sig_enforce off") {
		t.Error(got.Fix)
	}
}

// TestSignHere: the future signature of a mounted key is judged by its certificate, before anything is
// compiled or signed.
func TestSignHere(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	unsigned := b.write("unsigned.ko", plainModule)
	for _, c := range []struct {
		name   string
		edit   func(*Input)
		status Status
		find   string
	}{
		{"to be compiled", func(i *Input) { i.HaveModules, i.SignWith = false, b.db.Certificate }, OK, `"SB test db" (key 1aae51, sha256)`},
		{"to be compiled, foreign", func(i *Input) { i.HaveModules, i.SignWith = false, b.other.Certificate }, Blocked, "does not know"},
		{"to be compiled, no key", func(i *Input) { i.HaveModules = false }, Blocked, "have no signature"},
		{"to be signed", func(i *Input) { i.SignWith, i.Resign = b.db.Certificate, true }, OK, "which the kernel knows"},
		{"to be signed, sha512", func(i *Input) { i.SignWith, i.Resign, i.SignHash = b.db.Certificate, true, "sha512" }, Blocked, "neither has sha512"},
		{"left as they are", func(*Input) {}, Blocked, "have no signature"},
	} {
		_, in := b.machine(secure)
		in.Load, in.SignHash = []Loading{{"nvidia", unsigned}}, "sha256"
		c.edit(&in)
		if got := judged(t, in); got.Status != c.status || !strings.Contains(got.Finding, c.find) {
			t.Errorf("%s: %s: %s", c.name, got.Status, got.Finding)
		}
	}
}

// TestSome: one module of several differs from the others; one cannot be read.
func TestSome(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	good, unsigned := b.signed(b.db, crypto.SHA256, nil), b.write("unsigned.ko", plainModule)
	_, in := b.machine(secure)
	in.Certificate, in.Load = b.db.Certificate, []Loading{{"nvidia", good}, {"nvidia-uvm", unsigned}}
	got := judged(t, in)
	if got.Status != Blocked || !strings.Contains(got.Finding, "; nvidia-uvm has no signature") || strings.Contains(got.Finding, "SB test db") {
		t.Errorf("%+v", got)
	}
	in.Load = []Loading{{"nvidia", good}, {"nvidia-uvm", good + ".gone"}}
	if got = judged(t, in); got.Status != Warning || !strings.Contains(got.Finding, "the signature of nvidia-uvm cannot be read") {
		t.Errorf("%+v", got)
	}
	text, err := json.Marshal(got)
	if err != nil || !strings.Contains(string(text), `"keyring":".platform","name":"SB test db: 1aae51"`) || !strings.Contains(string(text), `"verdict":"trusted"`) {
		t.Errorf("%s, %v", text, err)
	}
}

// TestOtherCertificate: a certificate that does not belong to a signature says nothing about it.
func TestOtherCertificate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, in := b.machine(secure)
	in.Load, in.Certificate = []Loading{{"nvidia", b.signed(b.other, crypto.SHA256, nil)}}, b.db.Certificate
	if got := judged(t, in); got.Status != Warning || got.Signatures.Modules[0].Verdict != ProbablyForeign || got.Signatures.Modules[0].Signer != "Somebody else" {
		t.Errorf("%+v, %+v", got, got.Signatures)
	}
}

// TestKeysUnseen: the kernel's keys are hidden, wholly or in part, and so are its hashes.
func TestKeysUnseen(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	good, bad := b.signed(b.db, crypto.SHA256, nil), b.write("bad.ko", flip(1000)([]byte(testfile.Read(t, filepath.Join(b.dir, "nvidia.ko")))))
	for _, c := range []struct {
		name, path string
		edit       func(m *machine, in *Input)
		status     Status
		verdict    Verdict
	}{
		{"no /proc/keys", good, func(m *machine, _ *Input) { m.gone("proc/keys") }, Warning, KeysUnseen},
		{"no keyrings", good, func(m *machine, _ *Input) { m.write("proc/keys", "") }, Warning, KeysUnseen},
		{"keyctl is forbidden", good, func(_ *machine, in *Input) {
			in.Members = func(int32) ([]int32, error) { return nil, os.ErrPermission }
		}, OK, ProbablyTrusted},
		{"no /proc/crypto", good, func(m *machine, _ *Input) { m.gone("proc/crypto") }, Warning, HashUnseen},
		{"no /proc/crypto, changed", bad, func(m *machine, _ *Input) { m.gone("proc/crypto") }, Blocked, Changed},
		{"hash, no host", good, func(m *machine, in *Input) { m.write("proc/crypto", ""); in.Host = in.Root }, Warning, HashUnseen},
		{"hash, no modprobe", good, func(m *machine, _ *Input) { m.write("proc/crypto", ""); m.write("proc/sys/kernel/modprobe", "\n") }, Blocked, NoHash},
	} {
		m, in := b.machine(secure)
		in.Certificate, in.Load = b.db.Certificate, []Loading{{"nvidia", c.path}}
		c.edit(m, &in)
		got := judged(t, in)
		if got.Status != c.status || got.Signatures.Modules[0].Verdict != c.verdict {
			t.Errorf("%s: %s: %s, %+v", c.name, got.Status, got.Finding, got.Signatures.Modules)
		}
	}
}

// TestNobodyAsks: when it is unknown whether the kernel requires signatures, a broken one gives a warning.
func TestNobodyAsks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m, in := b.machine(setup)
	m.gone("sys/module/module/parameters/sig_enforce")
	m.gone("sys/kernel/security/lockdown")
	in.Load = []Loading{{"nvidia", b.signed(b.db, crypto.SHA256, flip(-28-4))}}
	if got := judged(t, in); got.Status != Warning {
		t.Errorf("%+v", got)
	}
}

// TestShimOff: MokSBStateRT changes only the text: the kernel's own N counts.
func TestShimOff(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m, in := b.machine(setup)
	m.write("sys/firmware/efi/efivars/MokSBStateRT-605dab50-e046-4300-abb6-3dd810dd8b23", "\x06\x00\x00\x00\x01")
	in.Load = []Loading{{"nvidia", b.write("unsigned.ko", plainModule)}}
	got := judged(t, in)
	if got.Status != OK || !strings.Contains(got.Finding, "mokutil --disable-validation") || !got.Signatures.ValidationOff || !got.Signatures.SecureBoot {
		t.Errorf("%+v", got)
	}
}
