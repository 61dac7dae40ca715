package headers

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
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
// apt's CaInfo. own says that root is the root of this process.
func authorities(root fs.FS, own bool, c conf, log *slog.Logger) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if own { // this honours SSL_CERT_FILE and SSL_CERT_DIR
		system, err := x509.SystemCertPool()
		if err != nil {
			return nil, fmt.Errorf("read the system's certificates: %w", err)
		}
		pool = system
	}
	files := 0
	add := func(name string, loud bool) {
		if files++; files > maxCertFiles {
			return
		}
		text, err := confdir.Read(root, name)
		cert, noDER := x509.ParseCertificate(text)
		switch {
		case err != nil:
		case pool.AppendCertsFromPEM(text):
		case noDER == nil:
			pool.AddCert(cert)
		default:
			err = errors.New("it holds no certificate")
		}
		if loud && err != nil {
			log.Warn("certificates not used", "path", name, "error", err)
		}
	}
	walk := func(dir string, loud bool) {
		_ = fs.WalkDir(root, dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || strings.Count(name, "/") > 12 || files > maxCertFiles {
				return fs.SkipDir
			}
			// ..data of a mounted ConfigMap, to which the names in the same folder point
			hidden := strings.HasPrefix(d.Name(), ".")
			if hidden && d.IsDir() {
				return fs.SkipDir
			}
			if !d.IsDir() && !hidden {
				add(name, loud)
			}
			return nil
		})
	}
	if !own {
		walk("etc/ssl/certs", false)
		walk("etc/pki/tls/certs", false)
	}
	for _, dir := range anchors {
		// this folder usually has other files than certificates, too
		walk(dir, !strings.HasPrefix(dir, "etc/pki/ca-trust/extracted"))
	}
	for name, value := range c {
		if name == "acquire::https::cainfo" || strings.HasPrefix(name, "acquire::https::cainfo::") {
			add(strings.TrimPrefix(path.Clean(value), "/"), true)
		}
	}
	return pool, nil
}
