package sign

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
)

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

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	r, e := keys()["rsa"], keys()["p256"]
	key, _ := x509.MarshalPKCS8PrivateKey(e.Key)
	for name, c := range map[string]struct {
		key, cert []byte
		want      string
	}{
		"no certificate":      {key, nil, "give the file that has the key's"},
		"only a certificate":  {e.Certificate.Raw, nil, "no private key"},
		"another certificate": {key, r.Certificate.Raw, "is not that of the private key"},
		"two keys by mistake": {key, key, "holds a private key and no certificate"},
		"PKCS#12 certificate": {key, read(t, "keyfile/testdata/key.p12"), "-nokeys"},
	} {
		certFile := ""
		if c.cert != nil {
			certFile = write(t, "cert", c.cert)
		}
		_, err := LoadSigner(write(t, "key", c.key), certFile, nil)
		assert.ErrorContainsf(t, err, c.want, "%s", name)
	}
}
