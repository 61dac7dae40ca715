package testcert

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/driver-container/driver-container/ci/testkit/require"
)

// Leaks returns the files below a folder that hold the private key: in PEM, in DER, or the number
// of an ECDSA key.
func (p *Pair) Leaks(t require.T, dir string) (files []string) {
	t.Helper()
	der := must(x509.MarshalPKCS8PrivateKey(p.Key))
	secrets := [][]byte{
		der,
		bytes.Split(pem.EncodeToMemory(&pem.Block{Bytes: der}), []byte("\n"))[1],
	}
	if key, ok := p.Key.(*ecdsa.PrivateKey); ok {
		secrets = append(secrets, must(key.Bytes()))
	}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		for _, secret := range secrets {
			if bytes.Contains(data, secret) {
				files = append(files, path)
				break
			}
		}
		return err
	}))
	return files
}
