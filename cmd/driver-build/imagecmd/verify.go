package imagecmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/attestation"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/runner"
	"github.com/driver-container/driver-container/images/verify"
)

// verifyFlags are the flags of the command.
type verifyFlags struct {
	arch, format, kernel string
	certs, keys          []string
	trust                attestation.Trust
	deep                 bool
	runners              flags.Runners
	rebuild              rebuildFlags
}

func newVerify(a *session.App) *cobra.Command {
	var o verifyFlags
	cmd := &cobra.Command{
		Use: "verify IMAGE", Short: "Check an image against what a node's GPU stack expects of it", Args: session.ExactArgs(1),
		Long: "Check any driver image, ours or not. Of an image of driver-build, every file has to be as it was built. Every image needs\n" +
			"one driver version, whole libraries and programs with their links, owners and modes, firmware, sources that can be\n" +
			"compiled or whole modules with right signatures (made by whom --sign-cert says), an entrypoint, a licence.\n" +
			"With --key, the index and every image in it must be signed by one of these keys, under the tag that IMAGE has (--identity names another).\n" +
			"Attestations by other keys are warnings; --require says which ones there must be.\n" +
			"With --rebuild, the image is also built again from its provenance, with inputs from the cache or from where the provenance says,\n" +
			"and what differs is printed. Without --key, anyone can have written that provenance.\n" +
			"Prints each finding; exit code 5 when one is an error.\n" + imageArgument,
		Example: "  driver-build verify oci:dist:535.261.03-debian12\n" +
			"  driver-build verify registry.example.com/gpu/driver:580.178.04-ubuntu22.04 --key image.pub\n" +
			"  driver-build verify oci-archive:driver.tar --deep --kernel 5.15.0-164-generic",
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("arch") {
				o.rebuild.arch = o.arch
			}
			return o.run(cmd.Context(), a, oci.Named(args[0]))
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.arch, "arch", "amd64", "which image of an index")
	f.StringArrayVar(&o.certs, "sign-cert", nil, "FILE (PEM or DER): modules compiled ahead of time must be signed by one of these certificates' keys (repeatable)")
	f.StringArrayVar(&o.keys, "key", nil, "FILE with public keys or certificates (PEM or DER): the image itself must be signed by one of them (repeatable)")
	f.StringVar(&o.trust.Identity, "identity", "", "with --key: REGISTRY/PATH[:TAG] that a signature must state, instead of the tag of IMAGE")
	f.StringSliceVar(&o.trust.Require, "require", nil, "with --key: attestations that there must be: sbom, spdx, cyclonedx, provenance, vex or the URI of a type (repeatable)")
	f.BoolVar(&o.deep, "deep", false, "also compile modules in the image, with its own compiler, for a kernel of its repositories")
	f.StringVar(&o.kernel, "kernel", "", "with --deep: the release of the kernel (default: the newest of the usual flavour that the driver compiles on)")
	o.runners.AddTo(f)
	o.rebuild.addTo(f)
	flags.Format(f, &o.format)
	return cmd
}

func (o *verifyFlags) run(ctx context.Context, a *session.App, image string) error {
	if err := flags.CheckFormat(o.format); err != nil {
		return err
	}
	signers, err := flags.Certificates(o.certs)
	if err != nil {
		return session.Usage(err)
	}
	if err := o.trust.Check(); err != nil {
		return session.Usage(err)
	}
	if len(o.keys) == 0 && (o.trust.Identity != "" || len(o.trust.Require) > 0) {
		return session.Usagef("--identity and --require are about what is signed: give --key FILE too")
	}
	if o.trust.Keys, err = flags.PublicKeys("--key", time.Now(), o.keys...); err != nil {
		return err
	}
	if o.kernel != "" {
		if !o.deep {
			return session.Usagef("--kernel is for --deep")
		}
		if err := recipe.CheckRelease(o.kernel); err != nil {
			return session.Usage(err)
		}
	}
	if err := errors.Join(o.runners.Check(a.Getenv), o.rebuild.check()); err != nil {
		return session.Usage(err)
	}
	return withImage(ctx, a, image, o.arch, func(ctx context.Context, s *session.Session, base *registry.Opened) error {
		signatures, err := o.verifySignatures(ctx, s, image)
		if err != nil {
			return err
		}
		findings, err := verify.Examiner{Store: s.Store, Observe: s.Observe}.Verify(ctx, image, base.Image, signers...)
		findings = append(signatures, findings...)
		if err == nil && o.deep {
			var compiled *verify.Finding
			if compiled, err = o.tryCompile(ctx, s, image, base); compiled != nil {
				findings = append(findings, *compiled)
			}
		}
		if err == nil {
			var differences []verify.Finding
			differences, err = o.rebuild.run(ctx, s, &o.runners, image, o.trust.Keys, signers)
			findings = append(findings, differences...)
		}
		if err != nil {
			return err
		}
		if err := o.print(a, image, findings); err != nil {
			return err
		}
		return verify.Unfit(findings)
	})
}

// verifySignatures judges the signatures of the image itself, if there are keys.
func (o *verifyFlags) verifySignatures(ctx context.Context, s *session.Session, ref string) ([]verify.Finding, error) {
	if len(o.trust.Keys) == 0 {
		return nil, nil
	}
	image, err := attestation.Open(ctx, s.Registry, ref)
	if err != nil {
		return nil, err
	}
	return o.trust.Verify(image)
}

// tryCompile compiles in the image. A compile that fails is a finding.
func (o *verifyFlags) tryCompile(ctx context.Context, s *session.Session, image string, base *registry.Opened) (found *verify.Finding, err error) {
	closeRunner := o.runners.Attach(s)
	defer func() { err = errors.Join(err, closeRunner()) }()
	release, err := s.TryCompile(ctx, image, base, o.kernel)
	var failed *runner.FailedError
	switch {
	case errors.As(err, &failed):
		return &verify.Finding{Severity: verify.Error, Rule: "compile", Message: failed.Error()}, nil
	case errors.Is(err, images.ErrNotCompiling):
		return nil, session.Usagef("--deep: %w", err)
	case err != nil:
		return nil, err
	}
	return &verify.Finding{Severity: verify.Note, Rule: "compile", Message: "nvidia and nvidia-uvm compile for kernel " + release}, nil
}

func (o *verifyFlags) print(a *session.App, image string, findings []verify.Finding) error {
	if o.format == "json" {
		return a.JSON(session.NewList(findings))
	}
	for _, f := range findings {
		fmt.Fprintln(a.Stdout, f)
	}
	if verify.Unfit(findings) == nil { // otherwise the error is the verdict
		fmt.Fprintf(a.Stdout, "%s: no fault found, %d notes and warnings\n", image, len(findings))
	}
	return nil
}
