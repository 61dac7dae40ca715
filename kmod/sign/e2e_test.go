package sign

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/kmod/sign/keyfile"
)

// realTier skips the test unless the real tier was requested.
func realTier(t *testing.T) {
	t.Helper()
	tool.Real(t, "compares with openssl and the kernel's sign-file")
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// newKeys makes keys and certificates of each kind with openssl. It returns name -> key file; the certificate
// is beside the key.
func newKeys(t *testing.T, dir string) map[string]string {
	t.Helper()
	kinds := map[string][]string{"rsa2048": {"-newkey", "rsa:2048"}, "rsa4096": {"-newkey", "rsa:4096"},
		"p256": {"-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"}, "p384": {"-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-384"}}
	out := map[string]string{}
	for name, args := range kinds {
		out[name] = filepath.Join(dir, name+".key")
		run(t, "openssl", append([]string{"req", "-x509", "-nodes", "-days", "2", "-subj", "/C=XX/O=Example/CN=Modülbauer " + name, "-utf8",
			"-keyout", out[name], "-out", out[name] + ".crt"}, args...)...)
	}
	return out
}

// signFile returns the sign-file program of the newest of Debian's kernels.
func signFile(t *testing.T) string {
	t.Helper()
	all, err := filepath.Glob("/usr/lib/linux-kbuild-*/scripts/sign-file")
	if err != nil || len(all) == 0 {
		t.Fatalf("no /usr/lib/linux-kbuild-*/scripts/sign-file (%v): install linux-kbuild-6.1", err)
	}
	return all[len(all)-1]
}

// sameSignature compares two messages. ECDSA signatures contain random numbers: for them it compares
// everything except the signature value, and verifies that.
func sameSignature(t *testing.T, what string, got, want []byte, s *Signer, hash crypto.Hash) {
	t.Helper()
	if strings.Contains(what, "rsa") {
		if !bytes.Equal(got, want) {
			t.Errorf("%s: the signature differs:\n got %x\nwant %x", what, got, want)
		}
		return
	}
	if _, err := Verify(t.Context(), bytes.NewReader(testModule), want, []*x509.Certificate{s.Certificate}); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	infos, err := decode(want)
	require.NoErrorf(t, err, "%s", what)
	a := algorithms[slices.IndexFunc(algorithms, func(a algorithm) bool { return a.hash == hash })]
	again, err := encode(s.Certificate, a, infos[0].Signature)
	if err != nil || !bytes.Equal(again, want) {
		t.Errorf("%s: the message around the signature differs: %v\n got %x\nwant %x", what, err, again, want)
	}
}

func TestRealTools(t *testing.T) {
	realTier(t)
	tool, dir := signFile(t), t.TempDir()
	for kind, key := range newKeys(t, dir) {
		s := require.Value(LoadSigner(key, key+".crt", nil))(t)
		for _, name := range []string{"sha224", "sha256", "sha384", "sha512", "sha3-256", "sha3-384", "sha3-512"} {
			hash := require.Value(ParseHash(name))(t)
			what := kind + " " + name
			module := write(t, "x.ko", testModule)
			mine := require.Value(s.SignFile(t.Context(), module, hash))(t)
			// openssl 3.0 has no ECDSA with SHA-3 in CMS.
			if !strings.HasPrefix(name, "sha3") || strings.HasPrefix(kind, "rsa") {
				run(t, "openssl", "cms", "-sign", "-binary", "-noattr", "-nocerts", "-md", name, "-in", module, "-inkey", key, "-signer", key+".crt",
					"-outform", "DER", "-out", module+".cms")
				sameSignature(t, what+" openssl", mine, read(t, module+".cms"), s, hash)
				run(t, tool, name, key, key+".crt", module, module+".theirs")
				require.NoError(t, Attach(t.Context(), module, module+".ours", mine))
				if theirs := read(t, module+".theirs"); strings.HasPrefix(kind, "rsa") && !bytes.Equal(theirs, read(t, module+".ours")) {
					t.Errorf("%s: the file differs from sign-file's", what)
				}
				if _, err := VerifyFile(t.Context(), module+".theirs", []*x509.Certificate{s.Certificate}); err != nil {
					t.Errorf("%s: %v", what, err)
				}
				// openssl accepts our signature.
				require.NoError(t, os.WriteFile(module+".p7s", mine, 0o600))
				run(t, "openssl", "cms", "-verify", "-binary", "-content", module, "-inform", "DER", "-in", module+".p7s", "-certfile", key+".crt",
					"-noverify", "-purpose", "any", "-out", "/dev/null")
			}
		}
	}
}

// Other forms that openssl writes: by key id, with attributes, with the certificate inside, with the content
// inside.
func TestRealForms(t *testing.T) {
	realTier(t)
	key := newKeys(t, t.TempDir())["rsa2048"]
	certs := require.Value(keyfile.LoadCertificates(key + ".crt"))(t)
	for name, c := range map[string]struct {
		args []string
		want error
	}{
		"key id":           {[]string{"-noattr", "-nocerts", "-keyid"}, nil},
		"with certificate": {[]string{"-noattr"}, nil},
		"attributes":       {[]string{"-nocerts"}, ErrAttributes},
		"content":          {[]string{"-noattr", "-nodetach"}, ErrMalformed},
		"sha1":             {[]string{"-noattr", "-md", "sha1"}, nil},
		"pss":              {[]string{"-noattr", "-keyopt", "rsa_padding_mode:pss"}, ErrUnsupported},
		"md5":              {[]string{"-noattr", "-md", "md5"}, ErrUnsupported},
	} {
		module := write(t, "x.ko", testModule)
		run(t, "openssl", append([]string{"cms", "-sign", "-binary", "-in", module, "-signer", key + ".crt", "-inkey", key, "-outform", "DER", "-out", module + ".p7s"}, c.args...)...)
		der := read(t, module+".p7s")
		assert.ErrorIsf(t, assert.Err(Verify(t.Context(), bytes.NewReader(testModule), der, certs)), c.want, "%s", name)
	}
}
