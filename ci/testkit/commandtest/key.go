package commandtest

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"testing"

	"software.sslmate.com/src/go-pkcs12"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testcert"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

// SignKey makes a key, in PKCS#12 with the passphrase "correct", and its certificate.
func SignKey(t *testing.T) (keyFile, certFile string) {
	t.Helper()
	pair := testcert.New(
		x509.Certificate{SerialNumber: big.NewInt(5), Subject: pkix.Name{CommonName: "Site"}},
		nil,
	)
	p12 := require.Value(pkcs12.Modern.Encode(pair.Key, pair.Certificate, nil, "correct"))(t)
	dir := t.TempDir()
	keyFile = testfile.Write(t, dir+"/key.p12", string(p12))
	certFile = testfile.Write(t, dir+"/cert.pem", pair.CertPEM())
	return keyFile, certFile
}
