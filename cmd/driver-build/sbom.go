package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/documents"
	"github.com/driver-container/driver-container/images/matrix"
)

func newSBOMCmd(a *session.App) *cobra.Command {
	var arch string
	var format documents.Format
	cmd := &cobra.Command{
		Use: "sbom IMAGE", Short: "Print the bill of materials of an image", Args: session.ImageArgs(cobra.ExactArgs(1)),
		Long: "Print the bill of materials of a driver image as SPDX 2.3 or CycloneDX 1.6, in JSON: base, packages, NVIDIA's driver with its\n" +
			"libraries and firmware, kernel modules, our programs. The image tells what is in it. It does not tell where that came from, so\n" +
			"origins are NOASSERTION. Of an index, the document has all architectures." + imageArgument,
		Example: "  driver-build sbom oci:dist > driver.spdx.json\n" +
			"  driver-build sbom registry.example.com/gpu/driver:580.178.04-ubuntu22.04 --arch amd64 -o cyclonedx",
		RunE: func(cmd *cobra.Command, args []string) error {
			var document []byte
			err := a.With(cmd.Context(), nil, nil, func(ctx context.Context, s *session.Session) error {
				m, err := documents.OpenImages(ctx, s.Registry, s.Layers(), args[0], arch)
				if err != nil {
					return err
				}
				m.Tool = session.BuildInfo()
				document, err = documents.SBOM(m, format)
				return err
			})
			if err != nil {
				return err
			}
			_, err = a.Stdout.Write(document)
			return err
		},
	}
	cmd.Flags().StringVar(&arch, "arch", "", "`ARCH`: one image of an index (default all)")
	session.Check(cmd.Flags(), matrix.CheckArch, "arch")
	session.Format(cmd.Flags(), &format, "spdx or cyclonedx")
	return cmd
}
