package sign

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testcert"
)

// keys of the tests. Making an RSA key takes long, so there is one.
var keys = sync.OnceValue(func() map[string]*Signer {
	out := map[string]*Signer{}
	out["rsa"] = newTestSigner(testcert.RSA(), 0x7f01)
	for name, curve := range map[string]elliptic.Curve{"p256": elliptic.P256(), "p384": elliptic.P384(), "other": elliptic.P256()} {
		k, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			panic(err)
		}
		out[name] = newTestSigner(k, 0x80ff) // the DER of this number has a leading zero
	}
	return out
})

func newTestSigner(key crypto.Signer, serial int64) *Signer {
	return &Signer{Key: key, Certificate: newCert(key, serial)}
}

// newCert returns a certificate that has expired, which matters to nothing.
func newCert(key crypto.Signer, serial int64) *x509.Certificate {
	return testcert.Of(key, x509.Certificate{SerialNumber: big.NewInt(serial), NotBefore: time.Unix(1e9, 0), NotAfter: time.Unix(11e8, 0),
		Subject: pkix.Name{CommonName: "Builder of modules", Organization: []string{"Example"}}, SubjectKeyId: []byte{1, 2, 3, byte(serial)}}, nil).Certificate
}

func write(t testing.TB, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, content, 0o640))
	return path
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	return require.Value(os.ReadFile(path))(t)
}

func pemOf(label string, der []byte) []byte {
	return []byte(testcert.PEM(label, der))
}

func signed(module, der []byte) []byte {
	return append(append([]byte{}, module...), signatureBytes(der)...)
}
