package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/attestation"
	"github.com/driver-container/driver-container/images/imagename"
	"github.com/driver-container/driver-container/images/kernelmodules"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/oci"
)

const signLong = `Sign the modules of an image that were compiled ahead of time, so that nodes with Secure Boot load them. Signatures that
they have are replaced; layers without modules keep their digests. The hash is the one of each kernel's own configuration.
The result is a new image, which gets all tags that the image was built with; with --image-key it is signed too.
driver-build sign-image signs an image without a change of its modules.

With a key elsewhere, sign what is in DIR there, with the commands of docs/kernels.md#with-a-key-on-another-machine:
  driver-build sign-modules IMAGE --export DIR
  driver-build sign-modules IMAGE --import DIR --module-cert CERT` + imageArgument

// signFlags are the flags of the command sign-modules.
type signFlags struct {
	signer          flags.Signer
	imageSigner     flags.ImageSigner
	output          flags.Output
	export, answers string // folders
	whole           bool
	archs, tags     []string
	public          flags.PublicRegistry
}

func newSignCmd(a *session.App) *cobra.Command {
	var o signFlags
	cmd := &cobra.Command{
		Use: "sign-modules IMAGE", Short: "Sign the modules of an image", Long: signLong, Args: session.ImageArgs(cobra.ExactArgs(1)),
		Example: "  driver-build sign-modules oci:dist:580.178.04-5.15.0-164-generic-ubuntu22.04 --module-key key.pem --module-cert cert.pem --output oci:signed",
		RunE:    func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), a, args[0]) },
	}
	f := cmd.Flags()
	o.signer.AddTo(f)
	o.imageSigner.AddTo(f)
	f.Var(
		session.String(&o.export, session.Valid(kernelmodules.CheckRequestFolder)),
		"export",
		"write into `DIR` what an offline signer needs: digests and request.json",
	)
	session.Rare(f, func(f *pflag.FlagSet) {
		f.BoolVar(
			&o.whole,
			"unsigned-modules",
			false,
			"with --export, the modules instead of their digests",
		)
	})
	const importUsage = "attach the signatures that an offline signer left in `DIR`"
	f.StringVar(&o.answers, "import", "", importUsage)
	f.Var(
		session.Slice(&o.archs, session.Valid(matrix.CheckArch)),
		"arch",
		"`ARCH`: of an index, only these (repeatable; default: all)",
	)
	f.Var(
		session.Array(&o.tags, session.Valid(imagename.CheckTag)),
		"tag",
		"`TAG` of the result (repeatable; default: those that the image was built with)",
	)
	o.output.AddTo(f, "push to the repository")
	f.Var(
		session.String(&o.output.Repository, session.Valid(imagename.CheckRepository)),
		"repository",
		"`REGISTRY/PATH` to push to",
	)
	o.public.AddTo(f)
	return cmd
}

func (o *signFlags) check() error {
	switch {
	case countSet(o.signer.Key, o.export, o.answers) != 1:
		return session.Usagef(
			"sign-modules: give one of --module-key KEY, --export DIR and --import DIR; " +
				"the image itself is signed by driver-build sign-image IMAGE --image-key KEY",
		)
	case o.export != "" && o.imageSigner.Signs():
		return session.Usagef(
			"--export is about modules: driver-build sign-image IMAGE --export DIR is about the image itself",
		)
	case o.answers != "" && o.signer.Cert == "":
		return session.Usagef(
			"--import: give --module-cert CERT too: the signatures are checked against it",
		)
	case o.export != "" && o.signer.Cert != "":
		return session.Usagef("--module-cert belongs to a key: give --module-key too")
	case o.whole && o.export == "":
		return session.Usagef("--unsigned-modules says what --export writes: give --export DIR too")
	case o.export != "" && (o.named() || len(o.tags) > 0):
		return session.Usagef(
			"--export makes no image: --output, --push and --tag belong to --module-key or --import",
		)
	case o.output.Push && o.output.Repository == "":
		return session.Usagef("--push: give --repository REGISTRY/PATH")
	}
	err := errors.Join(o.imageSigner.Check(false), o.output.Parse(o.export != ""))
	if err != nil || !o.imageSigner.Signs() {
		return err
	}
	return o.output.CheckAttached(true, o.imageSigner.Format)
}

// named says whether the flags name a place for the result.
func (o *signFlags) named() bool { return o.output.Push || len(o.output.Outputs) > 0 }

// countSet counts the flags that have a value.
func countSet(values ...string) int {
	return len(slices.DeleteFunc(values, func(value string) bool { return value == "" }))
}

// checkExported says why a folder of --import lacks the list that an export wrote.
func checkExported(folder, list string) error {
	_, err := os.Stat(filepath.Join(folder, list))
	if err != nil {
		return session.Usagef("--import: %w; give the folder that --export wrote", err)
	}
	return nil
}

// imported returns the signatures in the folder of --import.
func (o *signFlags) imported() (how kernelmodules.Signatures, err error) {
	cert, err := flags.Certificate(o.signer.Cert)
	if err != nil {
		return how, err
	}
	err = checkExported(o.answers, kernelmodules.RequestName)
	if err != nil {
		return how, err
	}
	how, err = kernelmodules.ImportSignatures(o.answers, cert)
	if err != nil {
		return how, fmt.Errorf("--import: %w", err)
	}
	return how, nil
}

func (o *signFlags) run(ctx context.Context, a *session.App, ref string) error {
	err := o.check()
	if err != nil {
		return err
	}
	var how kernelmodules.Signatures
	if o.answers != "" {
		how, err = o.imported()
		if err != nil {
			return err
		}
	}
	if o.export == "" && !o.named() && !oci.IsLocal(ref) {
		return session.Usagef(
			"sign-modules %s: signed modules make a new image: give --push --repository REGISTRY/PATH, "+
				"or --output oci:DIR for a folder",
			ref,
		)
	}
	if o.signer.Key != "" {
		signer, err := o.signer.Load(a)
		if err != nil {
			return err
		}
		how = kernelmodules.SignaturesBy(signer)
	}
	plan := attestation.Publication{Format: o.imageSigner.Format, Tags: o.tags}
	plan.Signer, err = o.imageSigner.Load(a)
	if err != nil {
		return err
	}
	return a.Connect(ctx, nil, nil, func(ctx context.Context, s *session.Session) error {
		if o.output.Push {
			err := o.public.CheckImage(ctx, s, ref, o.output.Repository)
			if err != nil {
				return err
			}
			err = s.Builder.Registry.CheckPush(ctx, o.output.Repository)
			if err != nil {
				return err
			}
		}
		all, err := attestation.OpenArchs(ctx, s.Builder.Registry, ref, o.archs)
		if err != nil {
			return err
		}
		if o.export != "" {
			return o.writeRequest(ctx, a, s, all)
		}
		signed, err := attestation.SignModules(ctx, s.Builder.Layers(), ref, all, how)
		if err != nil {
			return err
		}
		return o.publish(ctx, a, s, signed, plan)
	})
}

// writeRequest writes what an offline signer needs.
func (o *signFlags) writeRequest(
	ctx context.Context,
	a *session.App,
	s *session.Session,
	all map[string]v1.Image,
) error {
	q, err := kernelmodules.RequestSignatures(ctx, s.Builder.Store, o.export, all, o.whole)
	if err != nil {
		return fmt.Errorf("--export: %w", err)
	}
	fmt.Fprintf(a.Stderr, "%d modules to sign\n", len(q.Modules))
	fmt.Fprintln(a.Stdout, filepath.Join(o.export, kernelmodules.RequestName))
	return nil
}

// publish writes the signed image as the main command writes those that it built.
func (o *signFlags) publish(
	ctx context.Context,
	a *session.App,
	s *session.Session,
	signed []v1.Image,
	plan attestation.Publication,
) error {
	artifact, err := images.Combine(signed)
	if err != nil {
		return err
	}
	if len(plan.Tags) == 0 {
		plan.Tags, err = attestation.BuiltTags(signed[0])
		if err != nil {
			return err
		}
	}
	zstd, err := attestation.HasZstd(signed)
	if err != nil {
		return err
	}
	if err := o.output.CheckContent(1, len(signed), zstd); err != nil {
		return err
	}
	return o.output.Publish(ctx, a, s, artifact, plan)
}
