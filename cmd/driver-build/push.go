package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/images/registry"
)

func newPushCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "push IMAGE REGISTRY/PATH:TAG", Short: "Push an image or index that was built before", Args: exactArgs(2),
		Long: "Push what a build has written: oci:DIR[:TAG], oci-archive:FILE[:TAG] or docker-archive:FILE. Only what the registry\n" +
			"lacks is sent, an upload that breaks off goes on where it was, and the tag moves when everything is there.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if !registry.IsLocal(args[0]) {
				return usageError{fmt.Errorf("push %s: give oci:DIR[:TAG], oci-archive:FILE or docker-archive:FILE", args[0])}
			}
			return a.with(cmd.Context(), nil, "", func(ctx context.Context, s *session) error {
				artifact, err := s.registry.Local(ctx, args[0])
				if err != nil {
					return err
				}
				digest, stats, err := s.registry.Push(ctx, args[1], artifact)
				if err != nil {
					return err
				}
				fmt.Fprintf(a.stderr, "blobs: %d sent (%s), %d mounted, %d there before\n", stats.Uploaded, megabytes(stats.Bytes), stats.Mounted, stats.Existing)
				fmt.Fprintf(a.stdout, "%s@%s\n", args[1], digest)
				return nil
			})
		},
	}
}
