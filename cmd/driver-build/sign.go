package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/imagename"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/modsign"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/kmod/sign/keyfile"
)

const signLong = `Sign the modules of an image that were compiled ahead of time, so that nodes with Secure Boot load them. Signatures that
they have are replaced; layers without modules keep their digests. The hash is the one of each kernel's own configuration.

With a key at hand:       driver-build sign IMAGE --sign-key KEY --sign-cert CERT --push --repository REPO
With a key elsewhere:     driver-build sign IMAGE --export DIR
                          (sign what is in DIR there; docs/signing.md has the commands)
                          driver-build sign IMAGE --import DIR --sign-cert CERT --push --repository REPO

` + imageArgument

// signFlags are the flags of the command sign.
type signFlags struct {
	signer          signerFlags
	output          outputFlags
	export, answers string // folders
	whole           bool
	archs, tags     []string
}

func (o *signFlags) flags(f *pflag.FlagSet) {
	o.signer.flags(f)
	f.StringVar(&o.export, "export", "", "write into DIR what an offline signer needs: digests and request.json")
	f.BoolVar(&o.whole, "unsigned-modules", false, "with --export, the modules instead of their digests")
	f.StringVar(&o.answers, "import", "", "attach the signatures that an offline signer left in DIR")
	f.StringSliceVar(&o.archs, "arch", nil, "of an index, only these (repeatable; default: all)")
	f.StringArrayVar(&o.tags, "tag", nil, "tag of the result (repeatable; default: the one that the image was built with)")
	o.output.flags(f)
	f.BoolVar(&o.output.push, "push", false, "push to the repository")
	f.StringVar(&o.output.repository, "repository", "", "REGISTRY/PATH to push to")
}

func newSignCmd(a *app) *cobra.Command {
	var o signFlags
	cmd := &cobra.Command{
		Use: "sign IMAGE", Short: "Sign the modules of an image", Long: signLong, Args: exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.sign(cmd.Context(), args[0], o) },
	}
	o.flags(cmd.Flags())
	return cmd
}

func (o *signFlags) check() (outs []oci.Output, err error) {
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
	case o.export != "" && (o.output.push || len(o.output.outputs) > 0 || len(o.tags) > 0):
		return nil, errors.New("--export makes no image: --output, --push and --tag belong to --sign-key or --import")
	case o.output.push && o.output.repository == "":
		return nil, errors.New("--push: give --repository REGISTRY/PATH")
	}
	for _, arch := range o.archs {
		if err := matrix.CheckArch(arch); err != nil {
			return nil, fmt.Errorf("--arch: %w", err)
		}
	}
	for _, tag := range o.tags {
		if err := imagename.CheckTag(tag); err != nil {
			return nil, fmt.Errorf("--tag %w", err)
		}
	}
	if o.export != "" {
		if err := modsign.CheckRequestFolder(o.export); err != nil {
			return nil, fmt.Errorf("--export: %w", err)
		}
	}
	return o.output.parse(o.export != "")
}

func (a *app) sign(ctx context.Context, ref string, o signFlags) (err error) {
	outs, err := o.check()
	if err == nil {
		err = registry.CheckSource(ref)
	}
	if err != nil {
		return usageError{err}
	}
	var cert *x509.Certificate
	if o.answers != "" {
		if cert, err = o.certificate(); err != nil {
			return usageError{err}
		}
	}
	signer, closer, err := o.signer.load(a.getenv)
	if err != nil {
		return usageError{err}
	}
	defer func() { err = errors.Join(err, closer()) }()
	return a.with(ctx, nil, a.programs(""), func(ctx context.Context, s *session) error {
		if o.output.push {
			if err := s.Registry.CheckPush(ctx, o.output.repository); err != nil {
				return err
			}
		}
		all, err := batch.Open(ctx, s.Registry, ref, o.archs)
		if err != nil {
			return err
		}
		if o.export != "" {
			return a.export(ctx, s, all, o)
		}
		var how modsign.Signatures
		if signer != nil {
			how = modsign.SignWith(signer)
		} else if how, err = modsign.ImportSignatures(o.answers, all, cert); err != nil {
			return fmt.Errorf("--import: %w", err)
		}
		signed, err := batch.Sign(ctx, s.Builder, ref, all, how)
		if err != nil {
			return err
		}
		return a.publishSigned(ctx, s, signed, outs, o)
	})
}

// certificate reads the certificate of an offline signer, and looks for the signer's answers.
func (o *signFlags) certificate() (*x509.Certificate, error) {
	certs, err := certificates([]string{o.signer.cert})
	if err != nil {
		return nil, err
	}
	if len(certs) > 1 {
		return nil, fmt.Errorf("--sign-cert %s has %d certificates: give the signer's alone", o.signer.cert, len(certs))
	}
	if _, err := os.Stat(filepath.Join(o.answers, modsign.RequestName)); err != nil {
		return nil, fmt.Errorf("--import: %w; give the folder that --export wrote", err)
	}
	return certs[0], nil
}

func (a *app) export(ctx context.Context, s *session, all map[string]v1.Image, o signFlags) error {
	q, err := modsign.RequestSignatures(ctx, s.Store, o.export, all, o.whole)
	if err != nil {
		return fmt.Errorf("--export: %w", err)
	}
	fmt.Fprintf(a.stderr, "%d modules to sign\n", len(q.Modules))
	fmt.Fprintln(a.stdout, filepath.Join(o.export, modsign.RequestName))
	return nil
}

// publishSigned writes the signed image as the main command writes those that it built.
func (a *app) publishSigned(ctx context.Context, s *session, signed []v1.Image, outs []oci.Output, o signFlags) error {
	artifact, err := images.Combine(signed)
	if err != nil {
		return err
	}
	tags := o.tags
	if len(tags) == 0 {
		tag, err := batch.BuiltTag(signed[0])
		if err != nil {
			return err
		}
		tags = []string{tag}
	}
	zstd, err := batch.HasZstd(signed)
	if err != nil {
		return err
	}
	if err := checkContent(outs, 1, len(signed), zstd); err != nil {
		return err
	}
	for _, tag := range tags {
		if err := a.publish(ctx, s, o.output, outs, tag, artifact); err != nil {
			return err
		}
	}
	return nil
}

// certificates reads the files of --sign-cert.
func certificates(files []string) ([]*x509.Certificate, error) {
	var all []*x509.Certificate
	for _, file := range files {
		certs, err := keyfile.LoadCertificates(file)
		if err != nil {
			return nil, fmt.Errorf("--sign-cert: %w", err)
		}
		all = append(all, certs...)
	}
	return all, nil
}
