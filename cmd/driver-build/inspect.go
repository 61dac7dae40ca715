package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/documents"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/verify"
)

const imageArgument = "\n\nIMAGE is a reference in a registry, oci:DIR[:TAG], oci-archive:FILE or docker-archive:FILE. A layout or archive that is there\n" +
	"is meant by its name alone too."

func newInspectCmd(a *session.App) *cobra.Command {
	var arch string
	var deep bool
	cmd := &cobra.Command{
		Use: "inspect IMAGE", Short: "Show what an image holds", Args: session.ImageArgs(cobra.ExactArgs(1)),
		Long: "Show what the manifest, config and labels of an image say: driver, system, kernels, base, layers. No layer is read, and from a\n" +
			"registry none is pulled. With --deep, all layers are read, for any driver image: libraries, programs, firmware, packages, the\n" +
			"modules in it and who signed them." + imageArgument,
		Example: "  driver-build inspect oci:dist\n  driver-build inspect registry.example.com/gpu/driver:580.178.04-ubuntu22.04 --arch arm64 --deep -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			return inspect(cmd.Context(), a, args[0], arch, deep)
		},
	}
	flags.AddArchTo(cmd.Flags(), &arch, "amd64", "`ARCH`: which image of an index")
	cmd.Flags().
		BoolVar(&deep, "deep", false, "read all layers: libraries, programs, firmware, packages, modules")
	session.Format(cmd.Flags(), &a.Format, "table", "json")
	return cmd
}

// inspect shows what an image says of itself, or with deep, all of it.
func inspect(ctx context.Context, a *session.App, ref, arch string, deep bool) error {
	o := registry.OpenOptions{Arch: arch, Part: registry.Config}
	if deep {
		o.Part = registry.Layers
	}
	var i *verify.Inspection
	err := withImage(
		ctx,
		a,
		ref,
		o,
		func(ctx context.Context, s *session.Session, base *registry.Opened) (err error) {
			if deep {
				i, err = verify.Examiner{
					Store:   s.Builder.Store,
					Observe: s.Builder.Observe,
				}.Inspect(ctx, ref, base.Image)
			} else {
				i, err = verify.Summarize(base.Image)
			}
			return err
		},
	)
	switch {
	case err != nil:
		return err
	case a.Format == "json":
		return a.JSON(i)
	case i.Driver == "" && !deep:
		a.Notes(
			"the image's labels do not name its driver: inspect --deep looks for it in the layers",
		)
	}
	return i.WriteText(a.Stdout)
}

// withImage opens an image for reading.
func withImage(
	ctx context.Context,
	a *session.App,
	ref string,
	o registry.OpenOptions,
	f func(context.Context, *session.Session, *registry.Opened) error,
) error {
	return a.Connect(ctx, nil, nil, func(ctx context.Context, s *session.Session) error {
		base, err := s.Builder.Registry.Open(ctx, ref, o)
		if err != nil {
			return err
		}
		return f(ctx, s, base)
	})
}

func newSBOMCmd(a *session.App) *cobra.Command {
	var arch string
	var format documents.Format
	var advisories flags.Advisories
	cmd := &cobra.Command{
		Use: "sbom IMAGE", Short: "Print the bill of materials of an image", Args: session.ImageArgs(cobra.ExactArgs(1)),
		Long: "Print the bill of materials of a driver image as SPDX 2.3 or CycloneDX 1.6, in JSON: base, packages, NVIDIA's driver with its\n" +
			"libraries and firmware, kernel modules, our programs. The image tells what is in it. It does not tell where that came from, so\n" +
			"origins are NOASSERTION. Of an index, the document has all architectures.\n\nopenvex is no bill of materials: it states the known CVEs of the driver, from NVIDIA's bulletins, for sign-image --vex." + imageArgument,
		Example: "  driver-build sbom oci:dist > driver.spdx.json\n" +
			"  driver-build sbom registry.example.com/gpu/driver:580.178.04-ubuntu22.04 --arch amd64 -o cyclonedx",
		RunE: func(cmd *cobra.Command, args []string) error {
			advisor, err := advisories.AdvisorNow(a)
			if err != nil {
				return err
			}
			var document []byte
			err = a.Connect(
				cmd.Context(),
				nil,
				nil,
				func(ctx context.Context, s *session.Session) error {
					m, err := documents.OpenImages(ctx, s.Builder.Registry, s.Builder.Layers(), args[0], arch)
					if err != nil {
						return err
					}
					m.Tool = session.BuildInfo()
					if format == documents.OpenVEX {
						document, err = documents.Statements(m, advisor)
						return err
					}
					document, err = documents.SBOM(m, format)
					return err
				},
			)
			if err != nil {
				return err
			}
			_, err = a.Stdout.Write(document)
			return err
		},
	}
	flags.AddArchTo(cmd.Flags(), &arch, "", "`ARCH`: one image of an index (default all)")
	session.Format(cmd.Flags(), &format, documents.SPDX, documents.CycloneDX, documents.OpenVEX)
	advisories.AddTo(cmd.Flags())
	return cmd
}
