package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/documents"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/registry"
)

func newSBOMCmd(a *session.App) *cobra.Command {
	var arch, format string
	cmd := &cobra.Command{
		Use: "sbom IMAGE", Short: "Print the bill of materials of an image", Args: cobra.ExactArgs(1),
		Long: "Print the bill of materials of a driver image as SPDX 2.3 or CycloneDX 1.6, in JSON: base, packages, NVIDIA's driver with its\n" +
			"libraries and firmware, kernel modules, our programs. The image tells what is in it. It does not tell where that came from, so\n" +
			"origins are NOASSERTION. Of an index, the document has all architectures.\n" +
			"IMAGE is a reference in a registry, oci:DIR[:TAG], oci-archive:FILE or docker-archive:FILE.",
		Example: "  driver-build sbom oci:dist > driver.spdx.json\n" +
			"  driver-build sbom registry.example.com/gpu/driver:580.178.04-ubuntu22.04 --arch amd64 -o cyclonedx",
		RunE: func(cmd *cobra.Command, args []string) error {
			return printSBOM(cmd.Context(), a, oci.Named(args[0]), arch, format)
		},
	}
	cmd.Flags().StringVar(&arch, "arch", "", "`ARCH`: one image of an index (default all)")
	flags.Format(cmd.Flags(), &format, "spdx or cyclonedx")
	return cmd
}

func printSBOM(ctx context.Context, a *session.App, image, arch, format string) error {
	err := registry.CheckSource(image)
	if arch != "" {
		err = errors.Join(err, matrix.CheckArch(arch))
	}
	if err != nil {
		return session.Usage(err)
	}
	var document []byte
	err = a.With(ctx, nil, nil, func(ctx context.Context, s *session.Session) error {
		m, err := documents.OpenImages(ctx, s.Registry, s.Layers(), image, arch)
		if err != nil {
			return err
		}
		m.Tool = session.BuildInfo()
		document, err = documents.SBOM(m, documents.Format(format))
		return err
	})
	if err != nil {
		return err
	}
	_, err = a.Stdout.Write(document)
	return err
}
