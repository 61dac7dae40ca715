package commandtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"software.sslmate.com/src/go-pkcs12"

	"github.com/driver-container/driver-container/ci/require"
)

// SignKey makes a key, in PKCS#12 with the passphrase "correct", and its certificate.
func SignKey(t *testing.T) (keyFile, certFile string) {
	t.Helper()
	key := require.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(5), Subject: pkix.Name{CommonName: "Site"}, NotAfter: time.Unix(4e9, 0)}
	der := require.Value(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	cert := require.Value(x509.ParseCertificate(der))(t)
	p12 := require.Value(pkcs12.Modern.Encode(key, cert, nil, "correct"))(t)
	dir := t.TempDir()
	keyFile, certFile = filepath.Join(dir, "key.p12"), filepath.Join(dir, "cert.pem")
	require.NoError(t, errors.Join(os.WriteFile(keyFile, p12, 0o600),
		os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)))
	return keyFile, certFile
}
