package sign

import (
	"crypto/x509"
	"slices"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// TestLoadSigner: of several certificates the one of the key counts; package keyfile has all formats.
func TestLoadSigner(t *testing.T) {
	t.Parallel()
	r, e := keys()["rsa"], keys()["p256"]
	key := pemOf("PRIVATE KEY", require.Value(x509.MarshalPKCS8PrivateKey(r.Key))(t))
	rCert, eCert := pemOf("CERTIFICATE", r.Certificate.Raw), pemOf("CERTIFICATE", e.Certificate.Raw)
	for name, files := range map[string][2][]byte{
		"certificate in another file":  {key, r.Certificate.Raw},
		"a chain, the key's not first": {slices.Concat(eCert, key, rCert), nil},
		"a chain in the other file":    {key, slices.Concat(eCert, rCert)},
		"the other file counts":        {slices.Concat(eCert, key), rCert},
	} {
		certFile := ""
		if files[1] != nil {
			certFile = write(t, "cert", files[1])
		}
		got, err := LoadSigner(write(t, "key", files[0]), certFile, nil)
		if err != nil || !got.Certificate.Equal(r.Certificate) || !sameKey(got.Key.Public(), r.Key.Public()) {
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
