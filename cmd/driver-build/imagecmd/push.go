package imagecmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/registry"
)

func newPush(a *session.App) *cobra.Command {
	return &cobra.Command{
		Use: "push IMAGE REGISTRY/PATH:TAG", Short: "Push an image or index that was built before", Args: session.ExactArgs(2),
		Long: "Push what a build has written: oci:DIR[:TAG], oci-archive:FILE[:TAG] or docker-archive:FILE. Only what the registry\n" +
			"lacks is sent, an upload that breaks off goes on where it was, and the tag moves when everything is there.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if !oci.IsLocal(args[0]) {
				return session.Usagef("push %s: give oci:DIR[:TAG], oci-archive:FILE or docker-archive:FILE", args[0])
			}
			if oci.IsLocal(args[1]) {
				return session.Usagef("push to %s: give REGISTRY/PATH:TAG", args[1])
			}
			for _, name := range args {
				if err := registry.CheckSource(name); err != nil {
					return session.Usagef("push %w", err)
				}
			}
			return a.With(cmd.Context(), nil, nil, func(ctx context.Context, s *session.Session) error {
				artifact, err := s.Registry.Local(ctx, args[0])
				if err != nil {
					return err
				}
				digest, stats, err := s.Registry.Push(ctx, args[1], artifact)
				if err != nil {
					return err
				}
				fmt.Fprintf(a.Stderr, "blobs: %d sent (%.1f MB), %d mounted, %d there before\n", stats.Uploaded, float64(stats.Bytes)/1e6, stats.Mounted, stats.Existing)
				fmt.Fprintf(a.Stdout, "%s@%s\n", args[1], digest)
				return nil
			})
		},
	}
}
