package imagecmd

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"

	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/attestation"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/verify"
)

// rebuildFlags say whether verify builds the image again, and where the inputs are that its provenance does
// not locate.
type rebuildFlags struct {
	on           bool
	arch         string // of --arch, one image of an index; "": all
	base, source string
}

func (o *rebuildFlags) addTo(f *pflag.FlagSet) {
	f.BoolVar(&o.on, "rebuild", false, "also build the image again from its provenance and compare; of an index every image, or that of --arch")
	f.StringVar(&o.base, "base", "", "with --rebuild: where the base image is, if not in its registry: REF, oci:DIR[:TAG], oci-archive:FILE or docker-archive:FILE")
	flags.Images(f, "base")
	f.StringVar(&o.source, "source", "", "with --rebuild: URL or FILE of the driver's .run archive, if it is not where the provenance says")
}

// check finds flags without effect and mistakes in their values, and makes an address of a file.
func (o *rebuildFlags) check() (err error) {
	if !o.on && (o.base != "" || o.source != "") {
		return errors.New("--base and --source are for --rebuild")
	}
	if o.base != "" {
		err = registry.CheckSource(o.base)
	}
	if err == nil && o.source != "" {
		o.source, err = fetch.Address("--source", o.source)
	}
	return err
}

// run builds the image again.
func (o *rebuildFlags) run(
	ctx context.Context, s *session.Session, with *flags.Runners, image string, keys []crypto.PublicKey, certs []*x509.Certificate,
) (_ []verify.Finding, err error) {
	if !o.on {
		return nil, nil
	}
	closeRunner := with.Attach(s)
	defer func() { err = errors.Join(err, closeRunner()) }()
	again := attestation.Rebuild{Keys: keys, Certificates: certs, Arch: o.arch, Base: o.base, Source: o.source}
	return again.Images(ctx, s.Builder, image)
}
