//go:build cgo

package pkcs11

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/kmod/sign"
	"github.com/driver-container/driver-container/kmod/sign/keyfile"
)

const library = "/usr/lib/softhsm/libsofthsm2.so"

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// token makes a SoftHSM token that has keys of each kind, made in the token, and certificates that openssl
// made for keys that were imported into it. It returns the folder of the token.
func token(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	conf := "directories.tokendir = " + filepath.Join(dir, "tokens") + "\nobjectstore.backend = file\nlog.level = ERROR\n"
	require.NoError(t, errors.Join(os.Mkdir(filepath.Join(dir, "tokens"), 0o700), os.WriteFile(filepath.Join(dir, "conf"), []byte(conf), 0o600),
		os.WriteFile(filepath.Join(dir, "pin"), []byte("1234\n"), 0o600)))
	t.Setenv("SOFTHSM2_CONF", filepath.Join(dir, "conf"))
	for _, label := range []string{"site", "other"} {
		run(t, "softhsm2-util", "--init-token", "--free", "--label", label, "--pin", "1234", "--so-pin", "123456")
	}
	tool := func(args ...string) {
		run(t, "pkcs11-tool", append([]string{"--module", library, "--token-label", "site", "--login", "--pin", "1234"}, args...)...)
	}
	for i, kind := range [][]string{{"-newkey", "rsa:2048"}, {"-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"}, {"-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-384"}} {
		name := []string{"modules", "p256", "p384"}[i]
		id := string(rune('1' + i))
		file := filepath.Join(dir, name)
		run(t, "openssl", append([]string{"req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=" + name, "-keyout", file + ".key", "-out", file + ".crt"}, kind...)...)
		run(t, "openssl", "x509", "-in", file+".crt", "-outform", "DER", "-out", file+".der")
		run(t, "openssl", "pkey", "-in", file+".key", "-outform", "DER", "-out", file+".keyder")
		run(t, "openssl", "pkey", "-in", file+".key", "-pubout", "-outform", "DER", "-out", file+".pub")
		tool("--write-object", file+".keyder", "--type", "privkey", "--id", "0"+id, "--label", name)
		if name != "p384" { // p384 has no public key object, only the certificate
			tool("--write-object", file+".pub", "--type", "pubkey", "--id", "0"+id, "--label", name)
		}
		tool("--write-object", file+".der", "--type", "cert", "--id", "0"+id, "--label", name)
	}
	tool("--keypairgen", "--key-type", "rsa:2048", "--id", "09", "--label", "alone")
	tool("--keypairgen", "--key-type", "rsa:2048", "--id", "0a", "--label", "double")
	tool("--keypairgen", "--key-type", "rsa:2048", "--id", "0b", "--label", "double")
	return dir
}

func TestRealToken(t *testing.T) {
	tool.Real(t, "needs softhsm2, pkcs11-tool (opensc) and openssl")
	dir := token(t)
	pin := func() ([]byte, error) { return []byte("1234"), nil }
	module := bytes.Repeat([]byte("a module"), 10_000)
	query := "?module-path=" + library
	for name, c := range map[string]struct{ uri, cert, key string }{
		"RSA, file with the PIN":      {"pkcs11:token=site;object=modules" + query + "&pin-source=file:" + dir + "/pin", "", "modules"},
		"RSA, all properties":         {"pkcs11:model=SoftHSM%20v2;manufacturer=SoftHSM%20project;token=site;id=%01;object=modules;type=private" + query, "", "modules"},
		"RSA, certificate in a file":  {"pkcs11:token=site;id=%01" + query, dir + "/modules.crt", "modules"},
		"ECDSA P-256":                 {"pkcs11:token=site;object=p256" + query, "", "p256"},
		"ECDSA P-384, no public half": {"pkcs11:token=site;object=p384" + query, "", "p384"},
	} {
		s, closer, err := Open(c.uri, c.cert, pin)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		own := require.Value(sign.LoadSigner(filepath.Join(dir, c.key+".key"), filepath.Join(dir, c.key+".crt"), nil))(t)
		for _, hash := range []crypto.Hash{crypto.SHA256, crypto.SHA512} {
			der, err := s.Sign(t.Context(), bytes.NewReader(module), hash)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if _, err := sign.Verify(t.Context(), bytes.NewReader(module), der, []*x509.Certificate{own.Certificate}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if soft, err := own.Sign(t.Context(), bytes.NewReader(module), hash); c.key == "modules" && !bytes.Equal(soft, der) {
				t.Errorf("%s: token and file sign differently (%v)", name, err)
			}
		}
		// A second session with the same library, while the first is open, ends separately.
		second, closeSecond, err := Open(c.uri, c.cert, pin)
		if err == nil {
			_, err = second.Sign(t.Context(), bytes.NewReader(module), crypto.SHA256)
			err = errors.Join(err, closeSecond.Close())
		}
		if err == nil {
			_, err = s.Sign(t.Context(), bytes.NewReader(module), crypto.SHA256)
		}
		assert.NoErrorf(t, errors.Join(err, closer.Close()), "%s, twice", name)
	}
	withoutCertificate(t, query, pin, module)
	t.Setenv("PIN", "1234")
	toolSigns(t, dir, module)
	for name, c := range map[string]struct{ uri, cert, pin, want string }{
		"wrong PIN":           {"pkcs11:token=site;object=modules" + query, "", "9999", "refused the PIN"},
		"no such token":       {"pkcs11:token=nowhere;object=modules" + query, "", "1234", "\"site\""},
		"another model":       {"pkcs11:token=site;model=X;object=modules" + query, "", "1234", "0 tokens match"},
		"no such key":         {"pkcs11:token=site;object=none" + query, "", "1234", "0 private keys match"},
		"two keys":            {"pkcs11:token=site;object=double" + query, "", "1234", "2 private keys match"},
		"key without cert":    {"pkcs11:token=site;object=alone" + query, "", "1234", "no certificate"},
		"another certificate": {"pkcs11:token=site;object=alone" + query, dir + "/modules.crt", "1234", "is not that of the private key"},
	} {
		_, _, err := Open(c.uri, c.cert, func() ([]byte, error) { return []byte(c.pin), nil })
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), c.pin) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
	if _, _, err := Open("pkcs11:token=site;object=modules"+query, "", func() ([]byte, error) { return []byte("9999"), nil }); !errors.Is(err, ErrPIN) {
		t.Errorf("wrong PIN: %v; want ErrPIN", err)
	}
}

// withoutCertificate signs with a key that has none, as images are signed.
func withoutCertificate(t *testing.T, query string, pin func() ([]byte, error), content []byte) {
	t.Helper()
	for _, object := range []string{"alone", "p384"} {
		key, closer, err := OpenKey("pkcs11:token=site;object="+object+query, pin)
		require.NoErrorf(t, err, "%s", object)
		digest := sha256.Sum256(content)
		signature := require.Value(key.Sign(rand.Reader, digest[:], crypto.SHA256))(t)
		switch public := key.Public().(type) {
		case *rsa.PublicKey:
			err = rsa.VerifyPKCS1v15(public, crypto.SHA256, digest[:], signature)
		case *ecdsa.PublicKey:
			if !ecdsa.VerifyASN1(public, digest[:], signature) {
				err = errors.New("the signature is wrong")
			}
		}
		assert.NoErrorf(t, errors.Join(err, closer.Close()), "%s", object)
	}
	_, _, err := OpenKey("pkcs11:token=site;object=none"+query, pin)
	assert.ErrorContains(t, err, "0 private keys match")
}

// toolSigns makes plain signatures with pkcs11-tool, as docs/kernels.md describes, and wraps them.
func toolSigns(t *testing.T, dir string, module []byte) {
	t.Helper()
	digest := sha256.Sum256(module)
	input := map[string][]byte{"ko": module, "digest": digest[:]}
	for key, args := range map[string][]string{
		"modules": {"--id", "01", "--mechanism", "SHA256-RSA-PKCS", "--input-file", filepath.Join(dir, "x.ko")},
		"p256":    {"--id", "02", "--mechanism", "ECDSA", "--signature-format", "openssl", "--input-file", filepath.Join(dir, "x.digest")},
	} {
		for suffix, content := range input {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "x."+suffix), content, 0o600))
		}
		out := filepath.Join(dir, key+".sig")
		run(t, "pkcs11-tool", append([]string{"--module", library, "--token-label", "site", "--login", "--pin", "env:PIN", "--sign", "--output-file", out}, args...)...)
		certs := require.Value(keyfile.LoadCertificates(filepath.Join(dir, key+".crt")))(t)
		plain := require.Value(os.ReadFile(out))(t)
		if _, err := sign.Wrap(certs[0], crypto.SHA256, digest[:], plain); err != nil {
			t.Errorf("%s by pkcs11-tool: %v", key, err)
		}
	}
}
