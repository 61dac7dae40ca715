package sign

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
)

func phrase(s string) Passphrase { return func() ([]byte, error) { return []byte(s), nil } }

func TestLoadSigner(t *testing.T) {
	t.Parallel()
	r, e := keys()["rsa"], keys()["p256"]
	pkcs8 := func(s *Signer) []byte {
		return require.Value(x509.MarshalPKCS8PrivateKey(s.Key))(t)
	}
	sec1 := require.Value(x509.MarshalECPrivateKey(e.Key.(*ecdsa.PrivateKey)))(t)
	pkcs1 := x509.MarshalPKCS1PrivateKey(r.Key.(*rsa.PrivateKey))
	rCert, eCert := pemOf("CERTIFICATE", r.Certificate.Raw), pemOf("CERTIFICATE", e.Certificate.Raw)
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, []byte("text\n")) }
	for name, c := range map[string]struct {
		key, cert []byte
		want      *Signer
	}{
		"PKCS#8 PEM, certificate PEM":     {pemOf("PRIVATE KEY", pkcs8(r)), rCert, r},
		"PKCS#8 DER, certificate DER":     {pkcs8(r), r.Certificate.Raw, r},
		"PKCS#1 PEM":                      {pemOf("RSA PRIVATE KEY", pkcs1), rCert, r},
		"PKCS#1 DER":                      {pkcs1, rCert, r},
		"SEC1 PEM with parameters":        {join(pemOf("EC PARAMETERS", []byte{6, 0}), pemOf("EC PRIVATE KEY", sec1)), eCert, e},
		"SEC1 DER":                        {sec1, eCert, e},
		"PKCS#8 DER of ECDSA":             {pkcs8(e), eCert, e},
		"key and certificate in one file": {join(rCert, pemOf("PRIVATE KEY", pkcs8(r))), nil, r},
		"a chain, the key's not first":    {join(eCert, pemOf("PRIVATE KEY", pkcs8(r)), rCert), nil, r},
		"a chain in the other file":       {pkcs8(e), join(rCert, eCert), e},
		"the other file counts":           {join(eCert, pemOf("PRIVATE KEY", pkcs8(r))), rCert, r},
	} {
		certFile := ""
		if c.cert != nil {
			certFile = write(t, "cert", c.cert)
		}
		got, err := LoadSigner(write(t, "key", c.key), certFile, nil)
		if err != nil || !got.Certificate.Equal(c.want.Certificate) || !sameKey(got.Key.Public(), c.want.Key.Public()) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLoadEncrypted(t *testing.T) {
	t.Parallel()
	for file, c := range map[string]struct{ cert, phrase string }{"pbkdf2.pem": {"testdata/cert.pem", "correct"}, "pbkdf2-sha1.der": {"testdata/cert.pem", "correct"},
		"scrypt.pem": {"testdata/cert.pem", "correct"}, "key.p12": {"", "correct"}, "empty.p12": {"", ""}} {
		if s, err := LoadSigner("testdata/"+file, c.cert, phrase(c.phrase)); err != nil || s.Certificate.Subject.CommonName != "Key of the tests" {
			t.Errorf("%s: %v", file, err)
		}
		assert.ErrorIsf(t, assert.Err(LoadSigner("testdata/"+file, c.cert, phrase("wrong"))), ErrPassphrase, "%s with a wrong passphrase", file)
		if _, err := LoadSigner("testdata/"+file, c.cert, nil); !errors.Is(err, ErrPassphrase) && file != "empty.p12" {
			t.Errorf("%s without a passphrase: %v; want ErrPassphrase", file, err)
		}
		gone := errors.New("gone")
		if _, err := LoadSigner("testdata/"+file, c.cert, func() ([]byte, error) { return nil, gone }); !errors.Is(err, gone) {
			t.Errorf("%s when the passphrase cannot be had: %v", file, err)
		}
	}
	for file, want := range map[string]string{"pbes1.pem": "openssl pkcs8 -topk8", "legacy.pem": "openssl pkcs8 -topk8"} {
		if _, err := LoadSigner("testdata/"+file, "testdata/cert.pem", phrase("correct")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want the command that converts it", file, err)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	r, e := keys()["rsa"], keys()["p256"]
	key, _ := x509.MarshalPKCS8PrivateKey(e.Key)
	cert := write(t, "cert.der", e.Certificate.Raw)
	for name, c := range map[string]struct {
		key, cert []byte
		want      string
	}{
		"nothing":              {nil, nil, "no private key or certificate"},
		"text":                 {[]byte("0 is also the first byte of DER"), nil, "no private key or certificate"},
		"no certificate":       {key, nil, "give the file that has the key's"},
		"only a certificate":   {e.Certificate.Raw, nil, "no private key"},
		"two keys":             {append(pemOf("PRIVATE KEY", key), pemOf("PRIVATE KEY", key)...), e.Certificate.Raw, "more than one"},
		"another certificate":  {key, r.Certificate.Raw, "is not that of the private key"},
		"two keys by mistake":  {key, key, "holds a private key and no certificate"},
		"damaged":              {pemOf("PRIVATE KEY", key[:40]), e.Certificate.Raw, "read the private key (PKCS#8)"},
		"damaged certificate":  {append(pemOf("PRIVATE KEY", key), pemOf("CERTIFICATE", e.Certificate.Raw[:90])...), nil, "its certificate"},
		"indefinite length":    {[]byte{0x30, 0x80, 2, 1, 3}, nil, "BER"},
		"large":                {make([]byte, maxKeyFile+1), nil, "1048576 bytes"},
		"PKCS#12 certificate":  {key, read(t, "testdata/key.p12"), "-nokeys"},
		"another system's key": {pemOf("OPENSSH PRIVATE KEY", key), nil, "no private key or certificate"},
	} {
		certFile := ""
		if c.cert != nil {
			certFile = write(t, "cert", c.cert)
		}
		_, err := LoadSigner(write(t, "key", c.key), certFile, nil)
		assert.ErrorContainsf(t, err, c.want, "%s", name)
	}
	assert.ErrorIsf(t, assert.Err(LoadSigner("/none", cert, nil)), os.ErrNotExist, "no file")
	pipe := cert + ".pipe"
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	assert.ErrorContainsf(t, assert.Err(LoadSigner(pipe, cert, nil)), "regular", "a pipe")
}

func TestLoadCertificates(t *testing.T) {
	t.Parallel()
	r, e := keys()["rsa"].Certificate, keys()["p256"].Certificate
	got, err := LoadCertificates(write(t, "c", append(pemOf("CERTIFICATE", r.Raw), pemOf("CERTIFICATE", e.Raw)...)))
	if err != nil || len(got) != 2 || !got[0].Equal(r) || !got[1].Equal(e) {
		t.Errorf("LoadCertificates of PEM = %d certificates, %v; want both", len(got), err)
	}
	if got, err = LoadCertificates(write(t, "c", e.Raw)); err != nil || len(got) != 1 || !got[0].Equal(e) {
		t.Errorf("LoadCertificates of DER = %d certificates, %v", len(got), err)
	}
}
