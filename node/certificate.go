package node

import (
	"os"
	"path/filepath"

	"github.com/moby/sys/atomicwriter"

	"github.com/driver-container/driver-container/kmod/sign"
	"github.com/driver-container/driver-container/node/preflight"
)

// leaveCertificate writes the certificate of a key that the kernel does not know into a file that
// mokutil on the host can read.
func (n *Node) leaveCertificate(checks []preflight.Check, m ModuleSet) {
	for _, c := range checks {
		if c.Status != preflight.Blocked || c.Signatures == nil || c.Signatures.Enrol == "" {
			continue
		}
		cert := n.Supplier.Signer(m.Set, m.Source)
		if cert == nil {
			cert = m.Set.SigningCertificate()
		}
		if cert == nil {
			return
		}
		path := filepath.Join(n.cfg.StateDir, preflight.CertificateFile)
		err := os.MkdirAll(n.cfg.StateDir, 0o755)
		if err == nil {
			err = atomicwriter.WriteFile(path, cert.Raw, 0o644)
		}
		if err != nil {
			n.warn("the certificate of %s could not be left for mokutil: %v", sign.Owner(cert), err)
			return
		}
		n.Log.Info("certificate written for mokutil", "certificate", sign.Owner(cert), "path", path)
		if !n.HostStorage {
			n.warn(
				"%s is not a folder of the host: copy %s out of the container, or mount it",
				n.cfg.StateDir,
				path,
			)
		}
	}
}
