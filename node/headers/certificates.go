package headers

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/driver-container/driver-container/distros/confdir"
)

const maxCertFiles = 2000

// anchors are the folders in which operators mount certificates of their own;
// update-ca-certificates and update-ca-trust read them, too. The GPU Operator also mounts over the
// folder of those tools' output.
var anchors = []string{
	"usr/local/share/ca-certificates", "etc/pki/ca-trust/source/anchors", "usr/share/pki/ca-trust-source/anchors",
	"etc/pki/trust/anchors", "etc/pki/ca-trust/extracted/pem",
}

// authorities returns the pool of trusted certificates: those of the system, those in anchors, and
// apt's CaInfo.
func (f *fetcher) authorities(c conf) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	folders := append([]string{"etc/ssl/certs", "etc/pki/tls/certs"}, anchors...)
	if f.own() { // this honours SSL_CERT_FILE and SSL_CERT_DIR
		system, err := x509.SystemCertPool()
		if err != nil {
			return nil, fmt.Errorf("read the system's certificates: %w", err)
		}
		pool = system
		folders = anchors
	}
	var names []string
	for _, dir := range folders {
		names = append(names, certificateFiles(f.files, dir)...)
	}
	for name, value := range c {
		if name == "acquire::https::cainfo" || strings.HasPrefix(name, "acquire::https::cainfo::") {
			names = append(names, strings.TrimPrefix(path.Clean(value), "/"))
		}
	}
	if len(names) > maxCertFiles {
		f.Log.Warn("certificates not used: there are too many files", "most", maxCertFiles)
		names = names[:maxCertFiles]
	}
	for _, name := range names {
		err := addCertificates(pool, f.files, name)
		// these folders usually have other files, too
		mixed := strings.HasPrefix(name, "etc/pki/ca-trust/extracted/") ||
			strings.HasPrefix(name, "etc/ssl/") || strings.HasPrefix(name, "etc/pki/tls/")
		if err != nil && !mixed {
			f.Log.Warn("certificates not used", "path", name, "error", err)
		}
	}
	return pool, nil
}

// certificateFiles lists the files below a folder, which may be missing.
func certificateFiles(root fs.FS, dir string) (names []string) {
	_ = fs.WalkDir(root, dir, func(name string, d fs.DirEntry, err error) error {
		// ..data of a mounted ConfigMap, to which the names in the same folder point
		if err != nil || strings.HasPrefix(d.Name(), ".") && d.IsDir() ||
			strings.Count(name, "/") > 12 || len(names) > maxCertFiles {
			return fs.SkipDir
		}
		if !d.IsDir() && !strings.HasPrefix(d.Name(), ".") {
			names = append(names, name)
		}
		return nil
	})
	return names
}

// addCertificates adds what a file has, in PEM or DER.
func addCertificates(pool *x509.CertPool, root fs.FS, name string) error {
	text, err := confdir.Read(root, name)
	if err != nil || pool.AppendCertsFromPEM(text) {
		return err
	}
	cert, err := x509.ParseCertificate(text)
	if err != nil {
		return errors.New("it holds no certificate")
	}
	pool.AddCert(cert)
	return nil
}
