package host

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testcert"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/kmod/sign"
	"github.com/driver-container/driver-container/node"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/status"
)

// keyPair writes a key and its certificate, into separate files and into one file.
func keyPair(t *testing.T, name string) (key, cert, both string) {
	t.Helper()
	pair := testcert.New(x509.Certificate{SerialNumber: big.NewInt(5), Subject: pkix.Name{CommonName: name}, SubjectKeyId: []byte(name)}, nil)
	dir := t.TempDir()
	key, cert = filepath.Join(dir, "key.pem"), filepath.Join(dir, "cert.pem")
	pair.Write(t, cert, key)
	return key, cert, testfile.WriteMode(t, filepath.Join(dir, "both.pem"), pair.KeyPEM()+pair.CertPEM(), 0o600)
}

func TestLoadSigner(t *testing.T) {
	t.Parallel()
	key, cert, both := keyPair(t, "A")
	_, other, _ := keyPair(t, "B")
	open := testfile.WriteMode(t, filepath.Join(t.TempDir(), "open.pem"), testfile.Read(t, both), 0o644)
	phrase := testfile.Write(t, filepath.Join(t.TempDir(), "phrase"), "secret")
	for _, c := range []struct {
		name string
		cfg  config.Config
		want string // the text of the error
		says string
	}{
		{"none", config.Config{}, "", ""},
		{"two files", config.Config{SigningKey: key, SigningCert: cert}, "", ""},
		{"one file", config.Config{SigningKey: both}, "", ""},
		{"open to all", config.Config{SigningKey: open}, "", "can be read by others"},
		{"in the shared folder", config.Config{SigningKey: both, Toolkit: filepath.Dir(both)}, "--module-signing-key is " + both + ", in the folder that is shared", ""},
		{"link to the shared folder", config.Config{SigningKey: testfile.Write(t, filepath.Join(t.TempDir(), "key.pem"), "-> "+both), Toolkit: filepath.Dir(both)}, "in the folder that is shared", ""},
		{"passphrase in the shared folder", config.Config{SigningKey: both, SigningPassphraseFile: phrase, Toolkit: filepath.Dir(phrase) + "/."}, "--module-signing-passphrase-file is " + phrase, ""},
		{"beside the shared folder", config.Config{SigningKey: both, Toolkit: t.TempDir()}, "", ""},
		{"no shared folder", config.Config{SigningKey: both, Toolkit: "/nowhere"}, "", ""},
		{"no such file", config.Config{SigningKey: key + "x", SigningCert: cert}, "no such file", ""},
		{"another's certificate", config.Config{SigningKey: key, SigningCert: other}, "is not that of the private key", ""},
		{"no certificate", config.Config{SigningKey: key}, "the key that is to sign modules", ""},
	} {
		var log logtest.Log
		s, err := loadSigner(c.cfg, log.Logger())
		switch {
		case c.want != "":
			assert.ErrorIsf(t, err, config.ErrConfig, "%s", c.name)
			assert.ErrorContainsf(t, err, c.want, "%s", c.name)
		case err != nil || (s == nil) != (c.cfg.SigningKey == ""):
			t.Errorf("%s: %v, %v", c.name, s, err)
		}
		if text := log.String(); !strings.Contains(text, c.says) || c.says == "" && text != "" {
			t.Errorf("%s: says %s", c.name, text)
		}
	}
	bad := config.Defaults()
	bad.SigningCert = cert
	if err := bad.Check(); !errors.Is(err, config.ErrConfig) || !strings.Contains(err.Error(), "without --module-signing-key") {
		t.Errorf("%v", err)
	}
}

// signing returns a supply with its own image and cache.
func signing(t *testing.T, key string) *supply {
	t.Helper()
	s := &supply{cfg: config.Config{StateDir: t.TempDir()}, info: driverinfo.Description{Driver: v535, Arch: "amd64", Toolchain: true}, log: logtest.New(t),
		image: t.TempDir(), scratch: filepath.Join(t.TempDir(), "scratch")}
	if key != "" {
		var err error
		if s.signer, err = loadSigner(config.Config{SigningKey: key}, logtest.New(t)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// made returns a set of real files that look like modules to this program.
func made(t *testing.T, release string) *kbuild.Set {
	t.Helper()
	c := builder(t, "cp KOS/*.ko .")
	set := require.Value(CompileForImage(t.Context(), c, logtest.New(t)))(t)
	set.Key.Release = release
	return set
}

// TestSignAgain checks that modules of the cache are signed again if another key is mounted, that those of an
// image are signed only if they have no signature, and that the signed copy is found again.
func TestSignAgain(t *testing.T) {
	t.Parallel()
	_, _, a := keyPair(t, "A")
	_, _, b := keyPair(t, "B")
	w := node.Want{Driver: v535, Flavour: driverinfo.Proprietary, Release: imageKernel}
	unsigned := made(t, imageKernel)
	byA := signing(t, a)
	signedA := require.Value(byA.Sign(t.Context(), unsigned))(t)
	if got := signedA.SignedBy(); got != "A (sha256, key 41)" || unsigned.SignedBy() != "" || (*kbuild.Set)(nil).SignedBy() != "" {
		t.Errorf("%q, %q", got, unsigned.SignedBy())
	}
	for _, c := range []struct {
		name         string
		image, cache *kbuild.Set
		key          string
		source       string
		signs        bool
	}{
		{"no key, unsigned image", unsigned, nil, "", status.FromImage, false},
		{"no key, signed cache", nil, signedA, "", status.FromCache, false},
		{"unsigned image", unsigned, nil, a, status.FromImage, true},
		{"unsigned image, signed before", unsigned, signedA, a, status.FromCache, false},
		{"unsigned image, signed before with another key", unsigned, signedA, b, status.FromImage, true},
		{"signed image", signedA, nil, b, status.FromImage, false},
		{"unsigned cache", nil, unsigned, a, status.FromCache, true},
		{"signed cache", nil, signedA, a, status.FromCache, false},
		{"cache signed with another key", nil, signedA, b, status.FromCache, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := signing(t, c.key)
			for dir, set := range map[string]*kbuild.Set{s.image: c.image, s.cache().Dir: c.cache} {
				if set == nil {
					continue
				}
				require.Value((kbuild.Cache{Dir: dir}).Put(t.Context(), set))(t)
			}
			found, source, err := s.Find(t.Context(), w)
			if err != nil || source != c.source || (s.Signer(found, source) != nil) != c.signs {
				t.Fatalf("from %s, %v, to be signed by %v", source, err, s.Signer(found, source))
			}
			if !c.signs {
				return
			}
			signed := require.Value(s.Sign(t.Context(), found))(t)
			kept, err := s.Keep(t.Context(), signed, nil)
			if err != nil || !bytes.Equal(kept.Certificate, s.signer.Certificate.Raw) {
				t.Fatalf("%v, %v", kept, err)
			}
			for _, f := range kept.Modules {
				assert.NoError(t, assert.Err(sign.VerifyFile(t.Context(), f.Path, []*x509.Certificate{s.signer.Certificate})))
			}
			if again, source, err := s.Find(t.Context(), w); err != nil || source != status.FromCache || s.Signer(again, source) != nil {
				t.Errorf("the next start: from %s, %v", source, err)
			}
			assert.ErrorIsf(t, assert.Err(os.Stat(s.scratch)), os.ErrNotExist, "the scratch folder is left")
		})
	}
}

func TestSignTroubles(t *testing.T) {
	t.Parallel()
	_, _, key := keyPair(t, "A")
	s := signing(t, key)
	set := made(t, imageKernel)
	set.SigHash = ""
	assert.Equalf(t, true, s.Signer(set, status.Compiled) == nil, "a kernel without signatures")
	assert.Equalf(t, true, s.Signer(nil, "") != nil, "nothing is compiled yet")
	set.SigHash = "crc32"
	assert.ErrorContains(t, assert.Err(s.Sign(t.Context(), set)), imageKernel)
	if (&kbuild.Set{Certificate: []byte("x")}).SigningCertificate() != nil || (*kbuild.Set)(nil).SigningCertificate() != nil {
		t.Error("no certificate")
	}
}
