package imagecmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/imagename"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/registry"
)

const pushLong = `Push what a build has written (oci:DIR[:TAG], oci-archive:FILE[:TAG] or docker-archive:FILE), or copy an image from another
repository (REGISTRY/PATH:TAG). Signatures, attestations, SBOMs and everything else that belongs to the image go with it. Only what
the registry lacks is sent, an upload that breaks off goes on where it was, and tags move when everything is there.`

func newPush(a *session.App) *cobra.Command {
	var tags, mountFrom []string
	cmd := &cobra.Command{
		Use: "push IMAGE REGISTRY/PATH:TAG", Short: "Push an image or index, with all that belongs to it", Args: session.ExactArgs(2), Long: pushLong,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkPush(args[0], args[1], tags, mountFrom); err != nil {
				return err
			}
			a.MountFrom = mountFrom
			return a.With(cmd.Context(), nil, nil, func(ctx context.Context, s *session.Session) error {
				digest, stats, err := s.Registry.Copy(ctx, args[0], args[1], tags...)
				if err != nil {
					return err
				}
				belongs := ""
				if stats.Attachments > 0 {
					belongs = fmt.Sprintf("; %d signatures, SBOMs and the like", stats.Attachments)
				}
				fmt.Fprintf(a.Stderr, "blobs: %d sent (%.1f MB), %d mounted, %d there before%s\n",
					stats.Uploaded, float64(stats.Bytes)/1e6, stats.Mounted, stats.Existing, belongs)
				fmt.Fprintf(a.Stdout, "%s@%s\n", args[1], digest)
				return nil
			})
		},
	}
	cmd.Flags().StringArrayVar(&tags, "tag", nil, "further tag of the image (repeatable)")
	cmd.Flags().StringArrayVar(&mountFrom, "mount-from", nil, "repository of the same registry that may have the blobs already (repeatable)")
	return cmd
}

func checkPush(from, to string, tags, mountFrom []string) error {
	if oci.IsLocal(to) {
		return session.Usagef("push to %s: give REGISTRY/PATH:TAG", to)
	}
	for _, name := range []string{from, to} {
		if err := registry.CheckSource(name); err != nil {
			return session.Usagef("push %w", err)
		}
	}
	for _, tag := range tags {
		if err := imagename.CheckTag(tag); err != nil {
			return session.Usagef("--tag %w", err)
		}
	}
	for _, repository := range mountFrom {
		if err := imagename.CheckRepository(repository); err != nil {
			return session.Usagef("--mount-from %w", err)
		}
	}
	return nil
}
