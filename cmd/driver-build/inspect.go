package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/runner"
	"github.com/driver-container/driver-container/images/verify"
)

const imageArgument = "IMAGE is a reference in a registry, oci:DIR[:TAG], oci-archive:FILE or docker-archive:FILE."

func newInspectCmd(a *app) *cobra.Command {
	var arch, format string
	cmd := &cobra.Command{
		Use: "inspect IMAGE", Short: "Show what an image holds", Args: exactArgs(1),
		Long: "Show what a driver image holds: driver, system, layers, libraries, firmware, packages.\n" + imageArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkFormat(format); err != nil {
				return err
			}
			return a.withImage(cmd.Context(), args[0], arch, func(ctx context.Context, s *session, base *registry.Base) error {
				i, err := verify.Examiner{Store: s.Store, Observe: s.Observe}.Inspect(ctx, args[0], base.Image)
				if err != nil {
					return err
				}
				if format == "json" {
					return a.printJSON(i)
				}
				return i.WriteText(a.stdout)
			})
		},
	}
	cmd.Flags().StringVar(&arch, "arch", "amd64", "which image of an index")
	formatFlag(cmd.Flags(), &format)
	return cmd
}

// verifyFlags are the flags of the command.
type verifyFlags struct {
	arch, format, kernel string
	certs                []string
	deep                 bool
	runners              runnerFlags
}

func newVerifyCmd(a *app) *cobra.Command {
	var o verifyFlags
	cmd := &cobra.Command{
		Use: "verify IMAGE", Short: "Check an image against what a node's GPU stack expects of it", Args: exactArgs(1),
		Long: "Check any driver image, ours or not. Of an image of driver-build, every file has to be as it was built. Every image needs\n" +
			"one driver version, whole libraries and programs with their links, owners and modes, firmware, sources that can be\n" +
			"compiled or whole modules with right signatures (made by whom --sign-cert says), an entrypoint, a licence.\n" +
			"Prints each finding; exit code 5 when one is an error.\n" + imageArgument,
		RunE: func(cmd *cobra.Command, args []string) error { return a.verify(cmd.Context(), args[0], o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.arch, "arch", "amd64", "which image of an index")
	f.StringArrayVar(&o.certs, "sign-cert", nil, "FILE (PEM or DER): modules compiled ahead of time must be signed by one of these certificates' keys (repeatable)")
	f.BoolVar(&o.deep, "deep", false, "also compile modules in the image, with its own compiler, for a kernel of its repositories")
	f.StringVar(&o.kernel, "kernel", "", "with --deep: the release of the kernel (default: the newest of the usual flavour that the driver compiles on)")
	o.runners.flags(f)
	formatFlag(f, &o.format)
	return cmd
}

func (a *app) verify(ctx context.Context, image string, o verifyFlags) error {
	if err := checkFormat(o.format); err != nil {
		return err
	}
	signers, err := certificates(o.certs)
	if err != nil {
		return usageError{err}
	}
	if o.kernel != "" {
		if !o.deep {
			return usageError{errors.New("--kernel is for --deep")}
		}
		if err := recipe.CheckRelease(o.kernel); err != nil {
			return usageError{err}
		}
	}
	if err := o.runners.check(a.getenv); err != nil {
		return usageError{err}
	}
	return a.withImage(ctx, image, o.arch, func(ctx context.Context, s *session, base *registry.Base) error {
		findings, err := verify.Examiner{Store: s.Store, Observe: s.Observe}.Verify(ctx, image, base.Image, signers...)
		if err == nil && o.deep {
			var compiled *verify.Finding
			if compiled, err = a.tryCompile(ctx, s, image, base, o); compiled != nil {
				findings = append(findings, *compiled)
			}
		}
		if err != nil {
			return err
		}
		if err := a.printFindings(findings, o.format); err != nil {
			return err
		}
		return verify.Unfit(findings)
	})
}

// tryCompile compiles in the image. A compile that fails is a finding.
func (a *app) tryCompile(ctx context.Context, s *session, image string, base *registry.Base, o verifyFlags) (found *verify.Finding, err error) {
	closeRunner := o.runners.attach(s.Builder, func(line string) { _ = s.step("builder", line).End(false, nil) })
	defer func() { err = errors.Join(err, closeRunner()) }()
	release, err := s.TryCompile(ctx, image, base, o.kernel)
	var failed *runner.FailedError
	switch {
	case errors.As(err, &failed):
		return &verify.Finding{Severity: verify.Error, Rule: "compile", Message: failed.Error()}, nil
	case errors.Is(err, images.ErrNotCompiling):
		return nil, usageError{fmt.Errorf("--deep: %w", err)}
	case err != nil:
		return nil, err
	}
	return &verify.Finding{Severity: verify.Note, Rule: "compile", Message: "nvidia and nvidia-uvm compile for kernel " + release}, nil
}

// withImage opens an image for reading.
func (a *app) withImage(ctx context.Context, ref, arch string, f func(context.Context, *session, *registry.Base) error) error {
	if err := errors.Join(matrix.CheckArch(arch), registry.CheckSource(ref)); err != nil {
		return usageError{err}
	}
	return a.with(ctx, nil, a.programs(""), func(ctx context.Context, s *session) error {
		base, err := s.Registry.Base(ctx, ref, arch)
		if err != nil {
			return fmt.Errorf("open %s: %w", ref, err)
		}
		return f(ctx, s, base)
	})
}

func (a *app) printFindings(findings []verify.Finding, format string) error {
	if format == "json" {
		return a.printJSON(append([]verify.Finding{}, findings...))
	}
	for _, f := range findings {
		fmt.Fprintln(a.stdout, f)
	}
	return nil
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
