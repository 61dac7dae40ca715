package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/imagename"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/registry"
)

const pushLong = `Push what a build has written (oci:DIR[:TAG], oci-archive:FILE[:TAG] or docker-archive:FILE), or copy an image from another
repository (REGISTRY/PATH:TAG). Signatures, attestations, SBOMs and everything else that belongs to the image go with it. Only what
the registry lacks is sent, a blob whose upload breaks off is sent again, and tags move when everything is there.

To REGISTRY/PATH without a tag, images keep their tags: oci:DIR:TAG its TAG, oci:DIR all that the layout has.`

const pushExample = `  driver-build push oci:dist registry.example.com/gpu/driver
  driver-build push oci-archive:driver.tar registry.example.com/gpu/driver:580 --tag stable`

func newPushCmd(a *session.App) *cobra.Command {
	var tags []string
	var public flags.PublicRegistry
	cmd := &cobra.Command{
		Use: "push IMAGE... REGISTRY/PATH[:TAG]", Short: "Push images and indexes, with all that belongs to them", Long: pushLong, Example: pushExample, Args: checkPush,
		RunE: func(cmd *cobra.Command, args []string) error {
			return push(cmd.Context(), a, args[:len(args)-1], args[len(args)-1], tags, public)
		},
	}
	f := cmd.Flags()
	f.Var(
		session.Array(&tags, session.Valid(imagename.CheckTag)),
		"tag",
		"`TAG` of the image in the repository (repeatable; default: the tags that it has)",
	)
	flags.AddMountFromTo(f, a)
	public.AddTo(f)
	return cmd
}

func checkPush(cmd *cobra.Command, args []string) error {
	if err := cobra.MinimumNArgs(2)(cmd, args); err != nil {
		return err
	}
	sources := args[:len(args)-1]
	to := args[len(args)-1]
	if oci.IsLocal(to) {
		return session.Usagef(
			"push to %s: give REGISTRY/PATH:TAG, or REGISTRY/PATH to keep tags",
			to,
		)
	}
	if err := imagename.CheckImage(to); err != nil {
		return session.Usagef("push to %w", err)
	}
	return session.ImageArgs(cobra.ArbitraryArgs)(cmd, sources)
}

// push copies all images, and prints what was sent when the display of progress has ended.
func push(
	ctx context.Context,
	a *session.App,
	sources []string,
	to string,
	tags []string,
	public flags.PublicRegistry,
) error {
	var total registry.Stats
	err := a.Connect(ctx, nil, nil, func(ctx context.Context, s *session.Session) error {
		transfers, err := registry.Transfers(sources, to, tags)
		if err != nil {
			return session.Usage(err)
		}
		for _, t := range transfers {
			if err := public.CheckImage(ctx, s, t.From, t.To); err != nil {
				return err
			}
		}
		for _, t := range transfers {
			digest, stats, err := s.Builder.Registry.Copy(ctx, t.From, t.To, t.Tags...)
			total.Add(stats)
			if err != nil {
				return err
			}
			for _, name := range t.Names() {
				a.Result(name + "@" + digest.String())
			}
		}
		return nil
	})
	if total != (registry.Stats{}) {
		belongs := ""
		if total.Attachments > 0 {
			belongs = fmt.Sprintf("; %d signatures, SBOMs and the like", total.Attachments)
		}
		fmt.Fprintf(a.Stderr, "blobs: %d sent (%.1f MB), %d mounted, %d there before%s\n",
			total.Uploaded, float64(total.Bytes)/1e6, total.Mounted, total.Existing, belongs)
	}
	return err
}
