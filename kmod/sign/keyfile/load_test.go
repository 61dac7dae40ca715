package keyfile

import (
	"bytes"
	"crypto"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testcert"
)

func phrase(s string) Passphrase { return func() ([]byte, error) { return []byte(s), nil } }

// keys of the tests. Making an RSA key takes long, so there is one.
var keys = sync.OnceValue(func() map[string]crypto.Signer {
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	return map[string]crypto.Signer{"rsa": testcert.RSA(), "p256": testcert.Key(), "ed25519": ed}
})

func write(t testing.TB, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	return require.Value(os.ReadFile(path))(t)
}

func pemOf(label string, der []byte) []byte {
	return []byte(testcert.PEM(label, der))
}

func pkcs8(t testing.TB, key crypto.Signer) []byte {
	t.Helper()
	return require.Value(x509.MarshalPKCS8PrivateKey(key))(t)
}

// certificate returns the DER of a certificate that is valid until a second of Unix time.
func certificate(t testing.TB, key crypto.Signer, until int64) []byte {
	t.Helper()
	template := x509.Certificate{SerialNumber: big.NewInt(5), Subject: pkix.Name{CommonName: "Site"}, NotBefore: time.Unix(1e9, 0), NotAfter: time.Unix(until, 0)}
	return testcert.Of(key, template, nil).Certificate.Raw
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, []byte("text\n")) }

// refused returns the error of LoadPrivate.
func refused(file string, pass Passphrase) error {
	_, _, err := LoadPrivate(file, pass)
	return err
}

func equal(a, b crypto.PublicKey) bool { return a.(interface{ Equal(crypto.PublicKey) bool }).Equal(b) }

func TestLoadPrivate(t *testing.T) {
	t.Parallel()
	r, e := keys()["rsa"], keys()["p256"]
	cert := certificate(t, r, 4e9)
	sec1 := require.Value(x509.MarshalECPrivateKey(e.(*ecdsa.PrivateKey)))(t)
	pkcs1 := x509.MarshalPKCS1PrivateKey(r.(*rsa.PrivateKey))
	for name, c := range map[string]struct {
		file  []byte
		want  crypto.Signer
		certs int
	}{
		"PKCS#8 PEM":            {pemOf("PRIVATE KEY", pkcs8(t, r)), r, 0},
		"PKCS#8 DER":            {pkcs8(t, e), e, 0},
		"PKCS#1 PEM":            {pemOf("RSA PRIVATE KEY", pkcs1), r, 0},
		"PKCS#1 DER":            {pkcs1, r, 0},
		"SEC1 PEM":              {join(pemOf("EC PARAMETERS", []byte{6, 0}), pemOf("EC PRIVATE KEY", sec1)), e, 0},
		"SEC1 DER":              {sec1, e, 0},
		"Ed25519 PEM":           {pemOf("PRIVATE KEY", pkcs8(t, keys()["ed25519"])), keys()["ed25519"], 0},
		"Ed25519 DER":           {pkcs8(t, keys()["ed25519"]), keys()["ed25519"], 0},
		"with two certificates": {join(pemOf("CERTIFICATE", cert), pemOf("PRIVATE KEY", pkcs8(t, r)), pemOf("CERTIFICATE", cert)), r, 2},
	} {
		got, certs, err := LoadPrivate(write(t, c.file), nil)
		if err != nil || len(certs) != c.certs || !equal(got.Public(), c.want.Public()) {
			t.Errorf("%s: %d certificates, %v", name, len(certs), err)
		}
	}
}

func TestLoadEncrypted(t *testing.T) {
	t.Parallel()
	own := require.Value(LoadCertificates("testdata/cert.pem"))(t)[0].PublicKey.(*ecdsa.PublicKey)
	for file, c := range map[string]struct {
		phrase string
		certs  int
	}{"pbkdf2.pem": {"correct", 0}, "pbkdf2-sha1.der": {"correct", 0}, "scrypt.pem": {"correct", 0}, "des3.pem": {"correct", 0}, "key.p12": {"correct", 1}, "empty.p12": {"", 1}} {
		got, certs, err := LoadPrivate("testdata/"+file, phrase(c.phrase))
		if err != nil || len(certs) != c.certs || !own.Equal(got.Public()) {
			t.Errorf("%s: %d certificates, %v", file, len(certs), err)
		}
		assert.ErrorIsf(t, refused("testdata/"+file, phrase("wrong")), ErrPassphrase, "%s with a wrong passphrase", file)
		if err := refused("testdata/"+file, nil); !errors.Is(err, ErrPassphrase) && file != "empty.p12" {
			t.Errorf("%s without a passphrase: %v; want ErrPassphrase", file, err)
		}
		gone := errors.New("gone")
		if err := refused("testdata/"+file, func() ([]byte, error) { return nil, gone }); !errors.Is(err, gone) {
			t.Errorf("%s when the passphrase cannot be had: %v", file, err)
		}
	}
	for file, want := range map[string]string{"pbes1.pem": "openssl pkcs8 -topk8", "legacy.pem": "openssl pkcs8 -topk8"} {
		if err := refused("testdata/"+file, phrase("correct")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want the command that converts it", file, err)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	key := pkcs8(t, keys()["p256"])
	cert := certificate(t, keys()["p256"], 4e9)
	exchange := require.Value(x509.MarshalPKCS8PrivateKey(require.Value(ecdh.X25519().GenerateKey(rand.Reader))(t)))(t)
	public := require.Value(x509.MarshalPKIXPublicKey(keys()["p256"].Public()))(t)
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"nothing":              {nil, "no key or certificate"},
		"text":                 {[]byte("0 is also the first byte of DER"), "no key or certificate"},
		"only a certificate":   {cert, "it holds a certificate and no private key"},
		"a public key":         {pemOf("PUBLIC KEY", public), "it holds a public key and no private key"},
		"a public key in DER":  {public, "it holds a public key and no private key"},
		"a damaged sigstore":   {pemOf("ENCRYPTED SIGSTORE PRIVATE KEY", []byte(`{"kdf":"s3cret`)), "damaged"},
		"a key that exchanges": {exchange, "cannot sign"},
		"two keys":             {append(pemOf("PRIVATE KEY", key), pemOf("PRIVATE KEY", key)...), "more than one"},
		"damaged":              {pemOf("PRIVATE KEY", key[:40]), "read the private key (PKCS#8)"},
		"damaged certificate":  {append(pemOf("PRIVATE KEY", key), pemOf("CERTIFICATE", cert[:90])...), "its certificate"},
		"indefinite length":    {[]byte{0x30, 0x80, 2, 1, 3}, "BER"},
		"large":                {make([]byte, maxKeyFile+1), "1048576 bytes"},
		"another system's key": {pemOf("OPENSSH PRIVATE KEY", key), "no key or certificate"},
	} {
		err := refused(write(t, c.file), nil)
		assert.ErrorContainsf(t, err, c.want, "%s", name)
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: the error shows the file: %v", name, err)
		}
	}
	assert.ErrorIsf(t, refused("/none", nil), os.ErrNotExist, "no file")
	pipe := write(t, nil) + ".pipe"
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	assert.ErrorContainsf(t, refused(pipe, nil), "regular", "a pipe")
}

func TestLoadCertificates(t *testing.T) {
	t.Parallel()
	r, e := certificate(t, keys()["rsa"], 4e9), certificate(t, keys()["p256"], 11e8) // the second one expired, which matters to nothing here
	got, err := LoadCertificates(write(t, append(pemOf("CERTIFICATE", r), pemOf("CERTIFICATE", e)...)))
	if err != nil || len(got) != 2 || !bytes.Equal(got[0].Raw, r) || !bytes.Equal(got[1].Raw, e) {
		t.Errorf("LoadCertificates of PEM = %d certificates, %v; want both", len(got), err)
	}
	if got, err = LoadCertificates(write(t, e)); err != nil || len(got) != 1 || !bytes.Equal(got[0].Raw, e) {
		t.Errorf("LoadCertificates of DER = %d certificates, %v", len(got), err)
	}
}

// Both files were written by cosign.
func TestLoadSigstore(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{"cosign.pem": "P-256", "sigstore.pem": "P-256"} {
		key, _, err := LoadPrivate("testdata/"+file, phrase("hello"))
		if err != nil || key.Public().(*ecdsa.PublicKey).Curve.Params().Name != want {
			t.Errorf("%s: %v", file, err)
		}
	}
	assert.ErrorIs(t, refused("testdata/cosign.pem", phrase("wrong")), ErrPassphrase)
	// Without a passphrase the empty one counts. cosign writes such keys too.
	key := keys()["ed25519"]
	box := require.Value(encrypted.EncryptWithCustomKDFParameters(pkcs8(t, key), nil, encrypted.Legacy))(t)
	got, _, err := LoadPrivate(write(t, pemOf("ENCRYPTED SIGSTORE PRIVATE KEY", box)), nil)
	if err != nil || !equal(key.Public(), got.Public()) {
		t.Errorf("with an empty passphrase: %v", err)
	}
}

func TestLoadPublic(t *testing.T) {
	t.Parallel()
	now := time.Unix(12e8, 0)
	r, e, ed := keys()["rsa"], keys()["p256"], keys()["ed25519"]
	der := func(key crypto.Signer) []byte { return require.Value(x509.MarshalPKIXPublicKey(key.Public()))(t) }
	pkcs1 := x509.MarshalPKCS1PublicKey(r.Public().(*rsa.PublicKey))
	for name, c := range map[string]struct {
		file []byte
		want []crypto.Signer
	}{
		"PEM":                 {pemOf("PUBLIC KEY", der(e)), []crypto.Signer{e}},
		"DER":                 {der(ed), []crypto.Signer{ed}},
		"PKCS#1":              {pemOf("RSA PUBLIC KEY", pkcs1), []crypto.Signer{r}},
		"certificate":         {certificate(t, r, 4e9), []crypto.Signer{r}},
		"several":             {join(pemOf("PUBLIC KEY", der(e)), pemOf("CERTIFICATE", certificate(t, r, 4e9)), pemOf("PUBLIC KEY", der(ed))), []crypto.Signer{e, r, ed}},
		"beside a secret one": {join(pemOf("PRIVATE KEY", pkcs8(t, e)), pemOf("PUBLIC KEY", der(e))), []crypto.Signer{e}},
	} {
		got, err := LoadPublic(write(t, c.file), now)
		if err != nil || !slices.EqualFunc(got, c.want, func(a crypto.PublicKey, b crypto.Signer) bool { return equal(a, b.Public()) }) {
			t.Errorf("%s: %d keys, %v", name, len(got), err)
		}
	}
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"a private key":       {pkcs8(t, e), "openssl pkey"},
		"expired":             {certificate(t, e, 11e8), "expired on 2004-11-09"},
		"damaged":             {pemOf("PUBLIC KEY", der(e)[:40]), "load the public key"},
		"damaged certificate": {pemOf("CERTIFICATE", certificate(t, e, 4e9)[:90]), "its certificate"},
		"nothing":             {nil, "no key or certificate"},
	} {
		assert.ErrorContainsf(t, assert.Err(LoadPublic(write(t, c.file), now)), c.want, "%s", name)
	}
	assert.ErrorContains(t, assert.Err(LoadPublic(write(t, certificate(t, e, 4e9)), time.Unix(9e8, 0))), "not valid before 2001-09-09")
	assert.ErrorIs(t, assert.Err(LoadPublic(write(t, certificate(t, e, 11e8)), now)), ErrExpired)
}

func TestPassphraseFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put := func(name, text string) string {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	assert.Equal(t, " pass word ", string(require.Value(PassphraseFile(put("a", " pass word \r\n"))())(t)))
	if _, err := PassphraseFile(put("b", strings.Repeat("x", maxPassphrase+1)))(); err == nil || strings.Contains(err.Error(), "xxx") {
		t.Errorf("a large one: %v", err)
	}
	assert.ErrorIsf(t, assert.Err(PassphraseFile(filepath.Join(dir, "none"))()), os.ErrNotExist, "none")
}

func FuzzLoad(f *testing.F) {
	for _, name := range []string{"pbkdf2.pem", "pbkdf2-sha1.der", "legacy.pem", "cert.pem", "sigstore.pem"} {
		f.Add(read(f, "testdata/"+name))
	}
	f.Fuzz(func(_ *testing.T, data []byte) {
		items, err := parseItems(data)
		if err != nil {
			return
		}
		for _, it := range items {
			if it.kind != kindEncrypted && it.kind != kindPKCS12 && it.kind != kindSigstore { // those are slow on purpose
				_, _, _ = it.open(nil)
				_, _ = it.public(time.Unix(0, 0))
			}
		}
	})
}
