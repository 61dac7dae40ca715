package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/modsign"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/verify"
	"github.com/driver-container/driver-container/kmod/sign"
)

const signLong = `Sign the modules of an image that were compiled ahead of time, so that nodes with Secure Boot load them. Signatures that
they have are replaced; layers without modules keep their digests. The hash is the one of each kernel's own configuration.

With a key at hand:       driver-build sign IMAGE --sign-key KEY --sign-cert CERT --push --repository REPO
With a key elsewhere:     driver-build sign IMAGE --export DIR
                          (sign what is in DIR there; docs/signing.md has the commands)
                          driver-build sign IMAGE --import DIR --sign-cert CERT --push --repository REPO

` + imageArgument

// signOptions are the flags of the command sign.
type signOptions struct {
	signer          signerFlags
	export, answers string // folders
	whole           bool
	arches          []string
	tags            []string
	outputs         []string
	push            bool
	repository      string
}

func (o *signOptions) flags(f *pflag.FlagSet) {
	o.signer.flags(f)
	f.StringVar(&o.export, "export", "", "write into DIR what an offline signer needs: digests and request.json")
	f.BoolVar(&o.whole, "unsigned-modules", false, "with --export, the modules instead of their digests")
	f.StringVar(&o.answers, "import", "", "attach the signatures that an offline signer left in DIR")
	f.StringArrayVar(&o.arches, "arch", nil, "of an index, only these (repeatable; default: all)")
	f.StringArrayVar(&o.tags, "tag", nil, "tag of the result (repeatable; default: the one that the image was built with)")
	f.StringArrayVarP(&o.outputs, "output", "o", nil, "oci:DIR, oci-archive:FILE or docker-archive:FILE (repeatable; default oci:dist, unless --push)")
	f.BoolVar(&o.push, "push", false, "push to the repository")
	f.StringVar(&o.repository, "repository", "", "REGISTRY/PATH to push to")
}

func newSignCmd(a *app) *cobra.Command {
	var o signOptions
	cmd := &cobra.Command{
		Use: "sign IMAGE", Short: "Sign the modules of an image", Long: signLong, Args: exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.sign(cmd.Context(), args[0], o) },
	}
	o.flags(cmd.Flags())
	return cmd
}

func (o *signOptions) check() (outs []output, err error) {
	ways := 0
	for _, given := range []string{o.signer.key, o.export, o.answers} {
		if given != "" {
			ways++
		}
	}
	switch {
	case ways != 1:
		return nil, errors.New("sign: give one of --sign-key KEY, --export DIR and --import DIR")
	case o.answers != "" && o.signer.cert == "":
		return nil, errors.New("--import: give --sign-cert CERT too: the signatures are checked against it")
	case o.signer.key == "" && o.signer.passphraseFile != "", o.export != "" && o.signer.cert != "":
		return nil, errors.New("--sign-cert and --sign-passphrase-file belong to a key: give --sign-key too")
	case o.whole && o.export == "":
		return nil, errors.New("--unsigned-modules says what --export writes: give --export DIR too")
	case o.export != "" && (o.push || len(o.outputs) > 0 || len(o.tags) > 0):
		return nil, errors.New("--export makes no image: --output, --push and --tag belong to --sign-key or --import")
	case o.push && o.repository == "":
		return nil, errors.New("--push: give --repository REGISTRY/PATH")
	}
	for _, arch := range o.arches {
		if !slices.Contains(arches(), arch) {
			return nil, fmt.Errorf("--arch %q: there are %s", arch, strings.Join(arches(), ", "))
		}
	}
	if outs, err = parseOutputs(o.outputs); err != nil {
		return nil, err
	}
	if len(outs) == 0 && !o.push {
		outs = []output{{"oci", "dist"}}
	}
	return outs, nil
}

func (a *app) sign(ctx context.Context, ref string, o signOptions) (err error) {
	outs, err := o.check()
	if err != nil {
		return usageError{err}
	}
	signer, closer, err := o.signer.load(a.getenv)
	if err != nil {
		return usageError{err}
	}
	defer func() { err = errors.Join(err, closer.Close()) }()
	return a.with(ctx, nil, "", func(ctx context.Context, s *session) error {
		all, err := s.images(ctx, ref, o.arches)
		if err != nil {
			return err
		}
		if o.export != "" {
			return a.export(ctx, s, all, o)
		}
		var how modsign.Signatures
		if signer != nil {
			how = modsign.SignWith(signer)
		} else if how, err = o.read(all); err != nil {
			return err
		}
		signed := make([]v1.Image, 0, len(all))
		for _, arch := range arches() {
			if all[arch] == nil {
				continue
			}
			img, err := modsign.SignImage(ctx, s.builder.Layers(), ref+" "+arch, all[arch], how)
			if err != nil {
				return err
			}
			signed = append(signed, img)
		}
		return a.publish(ctx, s, signed, outs, o)
	})
}

// read takes the signatures of an offline signer.
func (o *signOptions) read(all map[string]v1.Image) (modsign.Signatures, error) {
	certs, err := certificates([]string{o.signer.cert})
	if err != nil {
		return modsign.Signatures{}, usageError{err}
	}
	if len(certs) > 1 {
		return modsign.Signatures{}, usageError{fmt.Errorf("--sign-cert %s has %d certificates: give the signer's alone", o.signer.cert, len(certs))}
	}
	how, err := modsign.ImportSignatures(o.answers, all, certs[0])
	if err != nil {
		return how, fmt.Errorf("--import: %w", err)
	}
	return how, nil
}

func (a *app) export(ctx context.Context, s *session, all map[string]v1.Image, o signOptions) error {
	q, err := modsign.RequestSignatures(ctx, s.builder.Store, o.export, all, o.whole)
	if err != nil {
		return fmt.Errorf("--export: %w", err)
	}
	fmt.Fprintf(a.stderr, "%d modules to sign\n", len(q.Modules))
	fmt.Fprintln(a.stdout, filepath.Join(o.export, modsign.RequestName))
	return nil
}

// publish writes the signed image as the main command writes those that it built.
func (a *app) publish(ctx context.Context, s *session, signed []v1.Image, outs []output, o signOptions) error {
	artifact, err := images.Combine(signed)
	if err != nil {
		return err
	}
	tags := o.tags
	if len(tags) == 0 {
		config, err := signed[0].ConfigFile()
		if err != nil {
			return err
		}
		tag := config.Config.Labels["org.opencontainers.image.version"]
		if tag == "" {
			return usageError{errors.New("the image does not say which tag it was built with: give --tag")}
		}
		tags = []string{tag}
	}
	zstd, err := hasZstd(signed)
	if err != nil {
		return err
	}
	for _, out := range outs {
		if err := out.check([]group{{items: make([]item, len(signed))}}, zstd); err != nil {
			return err
		}
	}
	j := &job{app: a, options: buildOptions{push: o.push, repository: o.repository}, outputs: outs}
	for _, tag := range tags {
		if err := j.publish(ctx, s, tag, artifact); err != nil {
			return err
		}
	}
	return nil
}

func hasZstd(all []v1.Image) (bool, error) {
	for _, img := range all {
		m, err := img.Manifest()
		if err != nil {
			return false, err
		}
		for _, l := range m.Layers {
			if strings.HasSuffix(string(l.MediaType), "+zstd") {
				return true, nil
			}
		}
	}
	return false, nil
}

// arches are the architectures that driver images are made for.
func arches() []string { return []string{"amd64", "arm64"} }

// images opens an image for each architecture that it is there for, or for those that were asked for.
func (s *session) images(ctx context.Context, ref string, wanted []string) (map[string]v1.Image, error) {
	all := map[string]v1.Image{}
	var missing error
	for _, arch := range arches() {
		if len(wanted) > 0 && !slices.Contains(wanted, arch) {
			continue
		}
		base, err := s.registry.Base(ctx, ref, arch)
		switch {
		case is[*registry.PlatformError](err) && len(wanted) == 0:
			missing = err
		case err != nil:
			return nil, fmt.Errorf("open %s: %w", ref, err)
		default:
			all[arch] = base.Image
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("open %s: %w", ref, missing)
	}
	return all, nil
}

// certificates reads the files of --sign-cert.
func certificates(files []string) ([]*x509.Certificate, error) {
	var all []*x509.Certificate
	for _, file := range files {
		certs, err := sign.LoadCertificates(file)
		if err != nil {
			return nil, fmt.Errorf("--sign-cert: %w", err)
		}
		all = append(all, certs...)
	}
	return all, nil
}

// signedBy says on one line who signed a set.
func signedBy(m verify.ModuleSet) string {
	if m.Damage != "" {
		return "damaged: " + m.Damage
	}
	first, same := verify.ModuleInfo{}, true
	for n, i := range m.Modules {
		if n == 0 {
			first = i
		}
		same = same && i.Signer == first.Signer && i.Hash == first.Hash && i.KeyID == first.KeyID
	}
	switch {
	case !same:
		return fmt.Sprintf("%d modules, signed differently (-o json shows how)", len(m.Modules))
	case first.Hash == "":
		return fmt.Sprintf("%d modules, unsigned", len(m.Modules))
	}
	text := fmt.Sprintf("%d modules, signed by %s with %s, key %s", len(m.Modules), first.Signer, first.Hash, first.KeyID)
	if m.Certificate != "" {
		text += ", certificate " + m.Certificate
	}
	return text
}
