package preflight

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/kmod/sign"
)

// judged returns the result of the check Signing without the others.
func judged(t *testing.T, in Input) Check {
	t.Helper()
	in.defaults()
	return checkSigning(&in)
}

// TestSignatures: the verdict for each kind of signature, and what it means for a start.
func TestSignatures(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, c := range []struct {
		name    string
		by      *sign.Signer
		known   bool // the image has the certificate
		edit    func([]byte) []byte
		verdict Verdict
		strict  Status
		find    string
	}{
		{"signed, in db", b.db, true, nil, Trusted, OK, "which the kernel knows"},
		{"without a subject key id", b.without, true, nil, Trusted, OK, `"SnakeOil" (key 0080)`},
		{"another key", b.other, true, nil, ForeignKey, Blocked, "a key that the kernel does not know"},
		{"issued by a certificate in db", b.leaf, true, nil, ForeignKey, Blocked, `"Leaf"`},
		{"broken DER", b.db, true, flip(len(plainModule)), NotSeen, Warning, "cannot be read"},
		{"length too large", b.db, true, flip(-28 - 4), NotSeen, Warning, "cannot be read"},
		{"not PKCS#7", b.db, true, flip(-28 - 10), NotSeen, Warning, "cannot be read"},
		{"the text is cut", b.db, true, func(d []byte) []byte { return d[:len(d)-1] }, Unsigned, Blocked, "have no signature"},
		{"something follows", b.db, true, func(d []byte) []byte { return append(d, 0) }, Unsigned, Blocked, "have no signature"},
		{"stripped", b.db, true, func([]byte) []byte { return plainModule }, Unsigned, Blocked, "have no signature"},
		{"certificate not known here", b.db, false, nil, Trusted, OK, `"SB test db" (key 0081)`},
		{"issuer's name only", b.leaf, false, nil, Trusted, OK, "which the kernel knows"},
		{"stranger, certificate not known here", b.other, false, nil, NotSeen, Warning, "whether the kernel knows that key cannot be seen"},
	} {
		path := b.signed(c.by, c.edit)
		for s, want := range map[state]Status{secure: c.strict, locked: c.strict, setup: OK} {
			_, in := b.machine(s)
			in.Load = []Loading{{"nvidia", path}}
			if c.known {
				in.Certificate = c.by.Certificate
			}
			got := judged(t, in)
			if got.Status != want || got.Signatures == nil || got.Signatures.Modules[0].Verdict != c.verdict || !strings.Contains(got.Finding, c.find) {
				t.Errorf("%s, %v: %s: %s (%+v)\nwant %s, %s: %s", c.name, s, got.Status, got.Finding, got.Signatures, want, c.verdict, c.find)
			}
			assert.Equalf(t, false, want != OK && got.Fix == "", "%s: no fix", c.name)
		}
	}
}

// TestEnrol: which command enrols the key, and when no key can be enrolled.
func TestEnrol(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	path := b.signed(b.other, nil)
	m, in := b.machine(secure)
	in.Load, in.Certificate = []Loading{{"nvidia", path}, {"nvidia-uvm", path}}, b.other.Certificate
	got := judged(t, in)
	command := "mokutil --import /state/nvidia-driver/module-signing.der"
	if fix := m.rename(got.Fix); !strings.Contains(fix, "`"+command+"`") || !strings.Contains(fix, "restart the machine") || !strings.Contains(fix, "MokManager") ||
		!strings.Contains(fix, "switch Secure Boot off") || m.rename(got.Signatures.Enrol) != command {
		t.Errorf("%s, %+v", fix, got.Signatures)
	}
	assert.Contains(t, got.Finding, `the modules are signed by "Somebody else" (key ff), a key that the kernel does not know`)
	text := string(require.Value(json.Marshal(got))(t))
	assert.Contains(t, text, `{"name":"SB test db: 1aae51"}`)
	assert.Contains(t, text, `"verdict":"foreign-key"`)
	require.NoError(t, os.RemoveAll(filepath.Join(m.dir, "sys/firmware")))
	if got = judged(t, in); !strings.Contains(got.Fix, "not started by UEFI") || got.Signatures.Enrol != "" || !strings.Contains(got.Fix, "switch module.sig_enforce off") {
		t.Error(got.Fix)
	}
}

// TestWhatIsSeen: the future signature of a mounted key is judged by its certificate, before anything is compiled
// or signed; one module of several may differ; a certificate that does not belong to a signature says nothing
// about it; and the kernel's keys may be hidden.
func TestWhatIsSeen(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	unsigned, stranger := b.write("unsigned.ko", plainModule), b.write("stranger.ko", require.Value(os.ReadFile(b.signed(b.other, nil)))(t))
	good := b.signed(b.db, nil)
	load := func(paths ...string) func(*machine, *Input) {
		return func(_ *machine, in *Input) {
			in.Load = nil
			for i, path := range paths {
				in.Load = append(in.Load, Loading{[]string{"nvidia", "nvidia-uvm"}[i], path})
			}
		}
	}
	compile := func(with *sign.Signer) func(*machine, *Input) {
		return func(_ *machine, in *Input) {
			if in.HaveModules = false; with != nil {
				in.SignWith = with.Certificate
			}
		}
	}
	for _, c := range []struct {
		name    string
		edit    func(*machine, *Input)
		status  Status
		verdict Verdict // of the last module
		find    string
	}{
		{"to be compiled", compile(b.db), OK, Trusted, `"SB test db" (key 1aae51)`},
		{"to be compiled, foreign", compile(b.other), Blocked, ForeignKey, "does not know"},
		{"to be compiled, no key", compile(nil), Blocked, Unsigned, "have no signature"},
		{"to be signed", func(m *machine, in *Input) { load(unsigned)(m, in); in.SignWith, in.Resign = b.db.Certificate, true }, OK, Trusted, "which the kernel knows"},
		{"left as they are", load(unsigned), Blocked, Unsigned, "have no signature"},
		{"one is not signed", load(good, unsigned), Blocked, Unsigned, "signed modules only; nvidia-uvm has no signature"},
		{"one cannot be read", load(good, good+".gone"), Warning, NotSeen, "the signature of nvidia-uvm cannot be read"},
		{"another's certificate", load(stranger), Warning, NotSeen, `signed by "Somebody else"`},
		{"no /proc/keys", func(m *machine, _ *Input) { m.gone("proc/keys") }, Warning, NotSeen, "cannot be seen"},
		{"no keyrings", func(m *machine, _ *Input) { m.write("proc/keys", "") }, Warning, NotSeen, "cannot be seen"},
		{"whether the kernel asks is not known", func(m *machine, _ *Input) {
			m.gone("proc/keys")
			m.gone("sys/module/module/parameters/sig_enforce")
			m.gone("sys/kernel/security/lockdown")
		}, Warning, NotSeen, "cannot be seen"},
	} {
		m, in := b.machine(secure)
		in.Certificate, in.Load = b.db.Certificate, []Loading{{"nvidia", good}}
		c.edit(m, &in)
		got := judged(t, in)
		if s := got.Signatures; got.Status != c.status || s.Modules[len(s.Modules)-1].Verdict != c.verdict || !strings.Contains(got.Finding, c.find) {
			t.Errorf("%s: %s: %s, %+v", c.name, got.Status, got.Finding, s.Modules)
		}
	}
}

// TestDistributionKeys: a key of a distribution's is known by the names in signatures and keyrings, and a kernel without
// it cannot get it: there is nothing to enrol.
func TestDistributionKeys(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, c := range []struct{ signer, builtin, system string }{
		{"Canonical Ltd. Kernel Module Signing", "Canonical Ltd. Kernel Module Signing: 88f752e560a1e0737e31163a466ad7b70a850c19", "ubuntu"},
		{"Nvidia GPU OOT CA", "Nvidia GPU OOT signing 001: 55e1cef88193e60419f0b0ec379c49f77545acf0", "rhel"},
	} {
		m, in := b.machine(secure)
		in.Load = []Loading{{"nvidia", b.signed(newSigner(t, c.signer, 9, []byte{9}, nil), nil)}}
		got := judged(t, in)
		assert.Equalf(t, Blocked, got.Status, "%s: %s", c.signer, got.Finding)
		assert.Contains(t, got.Finding, "a key that the kernel does not know")
		assert.Contains(t, got.Fix, "built into the kernels of "+c.system)
		assert.Equalf(t, "", got.Signatures.Enrol, "what enrols a key")
		m.write("proc/keys", b.procKeys()+"0fbf75c3 I------     1 perm 1f030000     0     0 asymmetri "+c.builtin+": X509.rsa 7e []\n")
		got = judged(t, in)
		assert.Equalf(t, OK, got.Status, "%s: %s", c.signer, got.Finding)
		assert.Contains(t, got.Finding, "which the kernel knows")
		m.gone("proc/keys")
		got = judged(t, in)
		assert.Equalf(t, Warning, got.Status, "%s: %s", c.signer, got.Finding)
	}
}
