package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/registry"
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
				return a.printInspection(i)
			})
		},
	}
	cmd.Flags().StringVar(&arch, "arch", "amd64", "which image of an index")
	formatFlag(cmd.Flags(), &format)
	return cmd
}

func newVerifyCmd(a *app) *cobra.Command {
	var arch, format string
	var certs []string
	cmd := &cobra.Command{
		Use: "verify IMAGE", Short: "Check an image against what a node's GPU stack expects of it", Args: exactArgs(1),
		Long: "Check any driver image, ours or not: one driver version, relative links, library folder, sonames, dependencies,\n" +
			"firmware, entrypoint, licence; that modules compiled ahead of time are whole, their signatures right, and made by whom\n" +
			"--sign-cert says. Prints each finding; exit code 5 when one is an error.\n" + imageArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkFormat(format); err != nil {
				return err
			}
			signers, err := certificates(certs)
			if err != nil {
				return usageError{err}
			}
			return a.withImage(cmd.Context(), args[0], arch, func(ctx context.Context, s *session, base *registry.Base) error {
				findings, err := verify.Examiner{Store: s.Store, Observe: s.Observe}.Verify(ctx, args[0], base.Image, signers...)
				if err != nil {
					return err
				}
				if err := a.printFindings(findings, format); err != nil {
					return err
				}
				return verify.Unfit(findings)
			})
		},
	}
	cmd.Flags().StringVar(&arch, "arch", "amd64", "which image of an index")
	cmd.Flags().StringArrayVar(&certs, "sign-cert", nil, "FILE (PEM or DER): modules compiled ahead of time must be signed by one of these certificates' keys (repeatable)")
	formatFlag(cmd.Flags(), &format)
	return cmd
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

func (a *app) printInspection(i *verify.Inspection) error {
	w := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "Digest\t%s\nDriver\t%s\nSystem\t%s\nArch\t%s\nProfile\t%s\nFlavours\t%s\nCommand\t%s\nSize\t%s\n",
		i.Digest, i.Driver, i.System, i.Arch, i.Profile, strings.Join(i.Flavours, ", "), strings.Join(i.Command, " "), megabytes(i.Size))
	fmt.Fprintf(w, "Libraries\t%d\nPrograms\t%s\nFirmware\t%s\nPackages\t%d\n",
		len(i.Libraries), strings.Join(i.Programs, " "), strings.Join(i.Firmware, " "), len(i.Packages))
	if d := i.Description; d != nil {
		fmt.Fprintf(w, "Kernels\t%s\nContent\t%s\n", kernels(d), d.ID)
	}
	for _, m := range i.Modules {
		fmt.Fprintf(w, "Modules\t%s %s: %s\n", m.Kernel, m.Flavour, signedBy(m))
	}
	for n, l := range i.Layers {
		fmt.Fprintf(w, "Layer %d\t%s\t%s\t%s\n", n, l.Digest, megabytes(l.Size), l.CreatedBy)
	}
	return w.Flush()
}

// kernels is the range that the modules compile on: "3.10 to 6.16".
func kernels(d *driverinfo.Description) string {
	text := "any"
	switch {
	case d.Kernel.Min != "" && d.Kernel.Max != "":
		text = d.Kernel.Min + " to " + d.Kernel.Max
	case d.Kernel.Min != "":
		text = "from " + d.Kernel.Min
	case d.Kernel.Max != "":
		text = "up to " + d.Kernel.Max
	}
	if len(d.Overridden) > 0 {
		text += ", overridden: " + strings.Join(d.Overridden, ", ")
	}
	return text
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
