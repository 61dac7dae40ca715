package node

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/kmod/sign"
	"github.com/driver-container/driver-container/node/preflight"
)

// keyPair writes a key and its certificate, in files of their own and together.
func keyPair(t *testing.T, name string) (key, cert, both string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(5), Subject: pkix.Name{CommonName: name}, SubjectKeyId: []byte(name)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	keyText := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
	certText := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("key.pem", keyText), write("cert.pem", certText), write("both.pem", append(keyText, certText...))
}

// sayings collects what is said.
type sayings []string

func (s *sayings) say(format string, args ...any) { *s = append(*s, fmt.Sprintf(format, args...)) }

func TestLoadSigner(t *testing.T) {
	t.Parallel()
	key, cert, both := keyPair(t, "A")
	_, other, _ := keyPair(t, "B")
	open := filepath.Join(t.TempDir(), "open.pem")
	data, err := os.ReadFile(both)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(open, data, 0o600), os.Chmod(open, 0o644)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		cfg  Config
		want string // of the error
		says string
	}{
		{"none", Config{}, "", ""},
		{"two files", Config{SigningKey: key, SigningCert: cert}, "", ""},
		{"one file", Config{SigningKey: both}, "", ""},
		{"open to all", Config{SigningKey: open}, "", "can be read by others"},
		{"no such file", Config{SigningKey: key + "x", SigningCert: cert}, "no such file", ""},
		{"another's certificate", Config{SigningKey: key, SigningCert: other}, "is not that of the private key", ""},
		{"no certificate", Config{SigningKey: key}, "the key that is to sign modules", ""},
	} {
		var said sayings
		s, err := loadSigner(c.cfg, said.say)
		switch {
		case c.want != "":
			if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", c.name, err)
			}
		case err != nil || (s == nil) != (c.cfg.SigningKey == ""):
			t.Errorf("%s: %v, %v", c.name, s, err)
		}
		if text := strings.Join(said, ""); !strings.Contains(text, c.says) || c.says == "" && text != "" {
			t.Errorf("%s: says %s", c.name, text)
		}
	}
	bad := Defaults()
	bad.SigningCert = cert
	if err := bad.Check(); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "without --module-signing-key") {
		t.Errorf("%v", err)
	}
}

func TestReadPassphrase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if got, err := readPassphrase(put(t, dir, "a", " pass word \r\n")); err != nil || string(got) != " pass word " {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := readPassphrase(put(t, dir, "b", strings.Repeat("x", 5000))); err == nil || strings.Contains(err.Error(), "xxx") {
		t.Errorf("a large one: %v", err)
	}
	if _, err := readPassphrase(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("none: %v", err)
	}
}

// signing is a supply with an image and a cache of its own.
func signing(t *testing.T, key string) *supply {
	t.Helper()
	s := &supply{cfg: Config{StateDir: t.TempDir()}, info: driverinfo.Info{Driver: v535, Toolchain: true}, say: t.Logf,
		image: t.TempDir(), scratch: filepath.Join(t.TempDir(), "scratch")}
	if key != "" {
		var err error
		if s.signer, err = loadSigner(Config{SigningKey: key}, t.Logf); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// made is a set of real files that are modules as far as this program looks.
func made(t *testing.T, release string) *kbuild.Set {
	t.Helper()
	c := builder(t, "cp KOS/*.ko .")
	set, err := CompileInto(t.Context(), c, func(string, ...any) {})
	if err != nil {
		t.Fatal(err)
	}
	set.Key.Release = release
	return set
}

// Modules of the cache are signed anew when another key is mounted; those of an image only when they have no signature, and the
// signed copy is found again.
func TestSignAgain(t *testing.T) {
	t.Parallel()
	_, _, a := keyPair(t, "A")
	_, _, b := keyPair(t, "B")
	w := Want{Driver: v535, Flavour: driverinfo.Proprietary, Release: imageKernel}
	unsigned := made(t, imageKernel)
	byA := signing(t, a)
	signedA, err := byA.Sign(t.Context(), unsigned)
	if err != nil {
		t.Fatal(err)
	}
	if got := signerOf(signedA); got != "A (sha256, key 41)" || signerOf(unsigned) != "" || signerOf(nil) != "" {
		t.Errorf("%q, %q", got, signerOf(unsigned))
	}
	for _, c := range []struct {
		name         string
		image, cache *kbuild.Set
		key          string
		source       string
		signs        bool
	}{
		{"no key, unsigned image", unsigned, nil, "", fromImage, false},
		{"no key, signed cache", nil, signedA, "", fromCache, false},
		{"unsigned image", unsigned, nil, a, fromImage, true},
		{"unsigned image, signed before", unsigned, signedA, a, fromCache, false},
		{"unsigned image, signed before with another key", unsigned, signedA, b, fromImage, true},
		{"signed image", signedA, nil, b, fromImage, false},
		{"unsigned cache", nil, unsigned, a, fromCache, true},
		{"signed cache", nil, signedA, a, fromCache, false},
		{"cache signed with another key", nil, signedA, b, fromCache, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := signing(t, c.key)
			for dir, set := range map[string]*kbuild.Set{s.image: c.image, s.cache().Dir: c.cache} {
				if set == nil {
					continue
				}
				if _, err := (kbuild.Cache{Dir: dir}).Put(t.Context(), set); err != nil {
					t.Fatal(err)
				}
			}
			found, source, err := s.Find(t.Context(), w)
			if err != nil || source != c.source || (s.Signer(found, source) != nil) != c.signs {
				t.Fatalf("from %s, %v, to be signed by %v", source, err, s.Signer(found, source))
			}
			if !c.signs {
				return
			}
			signed, err := s.Sign(t.Context(), found)
			if err != nil {
				t.Fatal(err)
			}
			kept, err := s.Keep(t.Context(), signed)
			if err != nil || !bytes.Equal(kept.Certificate, s.signer.Certificate.Raw) {
				t.Fatalf("%v, %v", kept, err)
			}
			for _, f := range kept.Modules {
				if _, err := sign.VerifyFile(t.Context(), f.Path, []*x509.Certificate{s.signer.Certificate}); err != nil {
					t.Error(err)
				}
			}
			if again, source, err := s.Find(t.Context(), w); err != nil || source != fromCache || s.Signer(again, source) != nil {
				t.Errorf("the next start: from %s, %v", source, err)
			}
			if _, err := os.Stat(s.scratch); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the scratch folder is left: %v", err)
			}
		})
	}
}

func TestSignTroubles(t *testing.T) {
	t.Parallel()
	_, _, key := keyPair(t, "A")
	s := signing(t, key)
	set := made(t, imageKernel)
	set.SigHash = ""
	if s.Signer(set, compiled) != nil || s.Signer(nil, "") == nil {
		t.Error("a kernel without signatures")
	}
	set.SigHash = "crc32"
	if _, err := s.Sign(t.Context(), set); err == nil || !strings.Contains(err.Error(), imageKernel) {
		t.Errorf("%v", err)
	}
	if certificateOf(&kbuild.Set{Certificate: []byte("x")}) != nil || certificateOf(nil) != nil {
		t.Error("no certificate")
	}
}

// What a mounted key is for is signed once, before it is loaded and kept.
func TestSignedStart(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		for _, cached := range []bool{false, true} {
			w.cache[v535] = cached
			e := w.run(life{version: v535}, func(n *Node) { n.supplier.(*instance).signer = &x509.Certificate{} })
			ops := strings.Join(e.ops, " ")
			if e.err != nil || !e.served || strings.Contains(ops, "compiled") == cached || !strings.Contains(ops, "sign") || !strings.Contains(ops, "keep") ||
				strings.Index(ops, "sign") > strings.Index(ops, "insert nvidia") || strings.Index(ops, "keep") < strings.Index(ops, "insert nvidia") {
				t.Errorf("cached %v: %v, %s", cached, e.err, ops)
			}
		}
	})
}

// The certificate is left for mokutil when a start is blocked by its key, and only then.
func TestLeaveCertificate(t *testing.T) {
	t.Parallel()
	_, _, key := keyPair(t, "A")
	s := signing(t, key)
	signed, err := s.Sign(t.Context(), made(t, imageKernel))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		check preflight.Check
		left  bool
	}{
		{"blocked by the key", preflight.Check{Status: preflight.Blocked, Signatures: &preflight.Signatures{Enrol: "mokutil"}}, true},
		{"blocked by something else", preflight.Check{Status: preflight.Blocked, Signatures: &preflight.Signatures{}}, false},
		{"another check", preflight.Check{Status: preflight.Blocked}, false},
		{"no block", preflight.Check{Status: preflight.Warning, Signatures: &preflight.Signatures{Enrol: "mokutil"}}, false},
	} {
		for who, found := range map[string]*kbuild.Set{"mounted key": nil, "set": signed} {
			var said sayings
			quiet := signing(t, "")
			n := &Node{cfg: Config{StateDir: filepath.Join(t.TempDir(), "state")}, say: said.say, supplier: quiet, found: found, board: (&board{}).mute()}
			if found == nil {
				n.supplier = s
			}
			n.leaveCertificate([]preflight.Check{c.check})
			data, err := os.ReadFile(filepath.Join(n.cfg.StateDir, preflight.CertificateFile))
			if c.left != (err == nil) || c.left && !bytes.Equal(data, s.signer.Certificate.Raw) {
				t.Errorf("%s, %s: %v; %q", c.name, who, err, said)
			}
			if c.left && !strings.Contains(strings.Join(said, " "), "is not a folder of the host") {
				t.Errorf("%s: %q", who, said)
			}
		}
	}
	var said sayings
	n := &Node{cfg: Config{StateDir: "/proc/nowhere"}, say: said.say, supplier: s, board: (&board{}).mute()}
	n.leaveCertificate([]preflight.Check{{Status: preflight.Blocked, Signatures: &preflight.Signatures{Enrol: "mokutil"}}})
	if !strings.Contains(strings.Join(said, " "), "could not be left for mokutil") {
		t.Errorf("%q", said)
	}
}
