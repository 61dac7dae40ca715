package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/attestation"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/runner"
	"github.com/driver-container/driver-container/images/verify"
)

// verifyFlags are the flags of the command.
type verifyFlags struct {
	arch, kernel string
	certs, keys  []string
	allowed      []string
	layers       []v1.Hash // the digests of allowed
	trust        attestation.Trust
	deep         bool
	runners      flags.Runners
	rebuild      bool
	again        attestation.Rebuild
}

func newVerifyCmd(a *session.App) *cobra.Command {
	var o verifyFlags
	cmd := &cobra.Command{
		Use: "verify IMAGE", Short: "Check an image against what a node's GPU stack expects of it", Args: session.ImageArgs(cobra.ExactArgs(1)),
		Long: "Check any driver image, ours or not. An image of driver-build has to have the layers and the configuration that it was built with.\n" +
			"Every image needs one driver version, whole libraries and programs with their links, owners and modes, firmware, sources that can be\n" +
			"compiled or whole modules with right signatures (made by whom --module-cert says), an entrypoint, a licence.\n\n" +
			"With --key, the index and every image in it must be signed by one of these keys, under the tag that IMAGE has (--identity names another).\n" +
			"Attestations by other keys are warnings; --require says which ones there must be.\n\n" +
			"With --rebuild, the image is also built again from its provenance, with inputs from the cache or from where the provenance says,\n" +
			"and what differs is printed. Without --key, anyone can have written that provenance.\n\n" +
			"Prints each finding; exit code 5 when one is an error." + imageArgument,
		Example: "  driver-build verify oci:dist:580.178.04-ubuntu22.04\n" +
			"  driver-build verify registry.example.com/gpu/driver:580.178.04-ubuntu22.04 --key image.pub\n" +
			"  driver-build verify oci-archive:driver.tar --deep --kernel 5.15.0-164-generic",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.again.Arch = o.arch
			return o.run(cmd.Context(), a, args[0])
		},
	}
	f := cmd.Flags()
	flags.AddArchTo(f, &o.arch, "", "`ARCH`: one image of an index (default all; --deep compiles in that for amd64)")
	f.StringArrayVar(&o.certs, "module-cert", nil, "`FILE` (PEM or DER): modules compiled ahead of time must be signed by one of these certificates' keys (repeatable)")
	f.StringArrayVar(&o.allowed, "allow-layer", nil, "`DIGEST` or diff ID of a layer that may lie on those of the build, such as one with a site's certificates (repeatable)")
	f.StringArrayVar(&o.keys, "key", nil, "`FILE` with public keys or certificates (PEM or DER): the image itself must be signed by one of them (repeatable)")
	f.StringVar(&o.trust.Identity, "identity", "", "with --key: `REGISTRY/PATH[:TAG]` that a signature must state, instead of the tag of IMAGE")
	f.StringSliceVar(&o.trust.Require, "require", nil, "with --key: attestations of a `TYPE` that there must be: sbom, spdx, cyclonedx, provenance, vex or the URI of a type (repeatable)")
	f.BoolVar(&o.deep, "deep", false, "also compile modules in the image, with its own compiler, for a kernel of its repositories")
	f.Var(
		session.String(&o.kernel, session.Valid(recipe.CheckRelease)),
		"kernel",
		"with --deep: the `RELEASE` of the kernel (default: the newest of the usual flavour that the "+
			"driver compiles on)",
	)
	o.runners.AddTo(f)
	f.BoolVar(&o.rebuild, "rebuild", false, "also build the image again from its provenance and compare; of an index every image, or that of --arch")
	f.Var(
		session.String(&o.again.Base, session.Image),
		"base",
		"with --rebuild: where the base `IMAGE` is, if not in its registry: REF, oci:DIR[:TAG], "+
			"oci-archive:FILE or docker-archive:FILE",
	)
	f.StringVar(&o.again.Source, "source", "", "with --rebuild: `URL` or FILE of the driver's .run archive, if it is not where the provenance says")
	session.Format(f, &a.Format, "table", "json")
	return cmd
}

// check finds mistakes in the flags, and reads the keys.
func (o *verifyFlags) check(ctx context.Context, getenv func(string) string) (err error) {
	switch {
	case len(o.keys) == 0 && (o.trust.Identity != "" || len(o.trust.Require) > 0):
		return session.Usagef(
			"--identity and --require are about what is signed: give --key FILE too",
		)
	case o.kernel != "" && !o.deep:
		return session.Usagef("--kernel is for --deep")
	case !o.rebuild && (o.again.Base != "" || o.again.Source != ""):
		return session.Usagef("--base and --source are for --rebuild")
	}
	for _, text := range o.allowed {
		digest, err := v1.NewHash(text)
		if err != nil {
			return session.Usagef("--allow-layer %q is no digest, such as sha256:...: %w", text, err)
		}
		o.layers = append(o.layers, digest)
	}
	o.again.Certificates, err = flags.Certificates(o.certs...)
	if err != nil {
		return err
	}
	o.trust.Keys, err = flags.PublicKeys("--key", o.keys...)
	if err != nil {
		return err
	}
	o.again.Keys = o.trust.Keys
	err = errors.Join(o.trust.Check(), o.runners.Check(ctx, getenv))
	if err == nil && o.again.Source != "" {
		o.again.Source, err = fetch.Address("--source", o.again.Source)
	}
	return session.Usage(err)
}

func (o *verifyFlags) run(ctx context.Context, a *session.App, image string) error {
	if err := o.check(ctx, a.Getenv); err != nil {
		return err
	}
	return a.Connect(ctx, nil, nil, func(ctx context.Context, s *session.Session) (err error) {
		closeRunner := o.runners.Attach(s)
		defer func() { err = errors.Join(err, closeRunner()) }()
		findings, err := o.examine(ctx, s, image)
		if err != nil {
			return err
		}
		unfit := verify.Unfit(findings)
		err = show(a, findings)
		if unfit == nil && a.Format != "json" { // otherwise the error is the verdict
			fmt.Fprintf(
				a.Stdout,
				"%s: no fault found, %d notes and warnings\n",
				image,
				len(findings),
			)
		}
		return errors.Join(err, unfit)
	})
}

// show prints findings, each beginning on a line of its own.
func show(a *session.App, findings []verify.Finding) error {
	if a.Format == "json" {
		return a.JSON(session.NewList(findings))
	}
	for _, f := range findings {
		fmt.Fprintln(a.Stdout, f)
	}
	return nil
}

// examine looks at all that the flags ask for.
func (o *verifyFlags) examine(
	ctx context.Context,
	s *session.Session,
	image string,
) (all []verify.Finding, err error) {
	if len(o.trust.Keys) > 0 {
		signed, err := attestation.Open(ctx, s.Builder.Registry, image)
		if err != nil {
			return nil, err
		}
		all, err = o.trust.Verify(signed)
		if err != nil {
			return nil, err
		}
		if signed.Repository != "" { // the tag may move meanwhile
			image = signed.Repository + "@" + signed.Digest.String()
		}
	}
	examiner := verify.Examiner{Store: s.Builder.Store, Observe: s.Builder.Observe}
	options := verify.Options{Signers: o.again.Certificates, AllowedLayers: o.layers}
	found, err := examiner.VerifyReference(ctx, s.Builder.Registry, image, o.arch, options)
	if err != nil {
		return nil, err
	}
	all = append(all, found...)
	if o.deep {
		found, err = o.tryCompile(ctx, s, image)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	if o.rebuild {
		found, err = o.again.Images(ctx, s.Builder, image)
		all = append(all, found...)
	}
	return all, err
}

// tryCompile compiles in the image. A compile that fails is a finding.
func (o *verifyFlags) tryCompile(
	ctx context.Context,
	s *session.Session,
	image string,
) ([]verify.Finding, error) {
	chosen := registry.OpenOptions{Arch: cmp.Or(o.arch, "amd64"), Part: registry.Layers}
	base, err := s.Builder.Registry.Open(ctx, image, chosen)
	if err != nil {
		return nil, err
	}
	release, err := s.Builder.TryCompile(ctx, image, base, o.kernel)
	failed, ran := errors.AsType[*runner.FailedError](err)
	switch {
	case ran:
		return []verify.Finding{
			{Severity: verify.Error, Rule: "compile", Message: failed.Error()},
		}, nil
	case errors.Is(err, images.ErrNotCompiling):
		return nil, session.Usagef("--deep: %w", err)
	case err != nil:
		return nil, err
	}
	const text = "nvidia and nvidia-uvm compile for kernel %s"
	return []verify.Finding{verify.NewFinding(verify.Note, "compile", "", text, release)}, nil
}
