package node

import (
	"cmp"
	"context"
	"os"
	"path/filepath"

	"github.com/moby/sys/atomicwriter"

	"github.com/driver-container/driver-container/kmod/sign"
	"github.com/driver-container/driver-container/node/preflight"
)

// fitness is the question whether this node can run the driver.
type fitness struct {
	*Node
	Facts
}

// check returns an error with everything that is in the way of the driver.
func (f fitness) check(ctx context.Context) error {
	checks := f.checks(ctx)
	for _, c := range checks {
		if c.Status == preflight.Warning {
			f.warn("preflight: %s: %s. %s", c.Name, c.Finding, c.Fix)
		}
	}
	err := preflight.Blocking(checks)
	if err != nil {
		f.leaveCertificate(checks)
	}
	return err
}

func (f fitness) checks(ctx context.Context) []preflight.Check {
	return f.Hardware.Preflight(ctx, f.input())
}

// input returns the facts as the checks take them.
func (f fitness) input() preflight.Input {
	whole := f.Loaded.Whole()
	signer := f.Supplier.Signer(f.Set, f.Source)
	in := preflight.Input{
		Release:     f.Want.Release,
		Flavour:     f.Want.Flavour,
		GPUs:        f.GPUs,
		HaveModules: f.Set != nil || whole,
		Source:      f.Source,
		Stays:       whole,
		Damaged:     f.Damaged,
		SignWith:    signer,
		Companions:  f.Want.Companions,
		GPUDirect: func() (text, fix string) {
			return f.group(f.ModuleSet).Check(f.Want.Release)
		},
	}
	if f.Previous != nil {
		in.Previous = f.Previous.Version
	}
	if f.cfg.ByHost() {
		in.HostModules = func() (text, fix string) { return hostUnfit(f.Kernel, f.Node.Info.Driver) }
	}
	if f.Set == nil {
		for _, name := range f.Want.Modules {
			in.Load = append(in.Load, preflight.Loading{Name: name})
		}
		return in
	}
	in.Certificate = f.Set.SigningCertificate()
	in.Resign = signer != nil
	for _, name := range f.Want.Modules {
		file, found := f.Set.File(name)
		if found {
			in.Load = append(in.Load, preflight.Loading{Name: name, Path: file.Path})
		}
	}
	return in
}

// leaveCertificate writes the certificate of a key that the kernel does not know into a file that
// mokutil on the host can read.
func (f fitness) leaveCertificate(checks []preflight.Check) {
	for _, c := range checks {
		if c.Status != preflight.Blocked || c.Signatures == nil || c.Signatures.Enrol == "" {
			continue
		}
		cert := f.Supplier.Signer(f.Set, f.Source)
		if cert == nil {
			cert = f.Set.SigningCertificate()
		}
		if cert == nil {
			return
		}
		path := filepath.Join(f.cfg.StateDir, preflight.CertificateFile)
		err := cmp.Or(
			os.MkdirAll(f.cfg.StateDir, 0o755),
			atomicwriter.WriteFile(path, cert.Raw, 0o644),
		)
		if err != nil {
			f.warn("the certificate of %s could not be left for mokutil: %v", sign.Owner(cert), err)
			return
		}
		f.Log.Info("certificate written for mokutil", "certificate", sign.Owner(cert), "path", path)
		if !f.HostStorage {
			f.warn(
				"%s is not a folder of the host: copy %s out of the container, or mount it",
				f.cfg.StateDir,
				path,
			)
		}
	}
}
