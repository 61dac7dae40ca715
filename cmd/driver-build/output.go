package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/registry"
)

// outputFlags say where images go. The help of --push and --repository is the command's.
type outputFlags struct {
	outputs    []string
	push       bool
	repository string
}

func (o *outputFlags) flags(f *pflag.FlagSet) {
	f.StringArrayVarP(&o.outputs, "output", "o", nil, "oci:DIR, oci-archive:FILE or docker-archive:FILE (repeatable; default oci:dist, unless --push)")
}

// parse checks all outputs before anything is done, and the repository. dry says that nothing is written.
func (o *outputFlags) parse(dry bool) ([]oci.Output, error) {
	if err := batch.CheckRepository(o.repository); err != nil {
		return nil, err
	}
	outs, err := oci.ParseOutputs(o.outputs)
	if err != nil {
		return nil, usageError{fmt.Errorf("--output %w", err)}
	}
	if dry {
		return outs, nil
	}
	if len(outs) == 0 && !o.push {
		outs = []oci.Output{{Kind: "oci", Path: "dist"}}
	}
	for _, out := range outs {
		if err := out.Check(); err != nil {
			return nil, usageError{fmt.Errorf("--output %w", err)}
		}
	}
	return outs, nil
}

// checkContent refuses what the outputs cannot hold.
func checkContent(outs []oci.Output, tags, archs int, zstd bool) error {
	for _, out := range outs {
		if err := out.CheckContent(tags, archs, zstd); err != nil {
			return usageError{fmt.Errorf("--output %w", err)}
		}
	}
	return nil
}

// publish writes an artifact to all outputs, pushes it, and prints a line for each.
func (a *app) publish(ctx context.Context, s *session, o outputFlags, outs []oci.Output, tag string, t oci.Artifact) error {
	digest, err := t.Digest()
	if err != nil {
		return err
	}
	for _, out := range outs {
		step := s.step(tag, "write "+out.String())
		ref, err := out.Write(ctx, o.repository, tag, t)
		if step.End(false, err) != nil {
			return err
		}
		a.result(ref + "@" + digest.String())
	}
	if o.push {
		ref := o.repository + ":" + tag
		if _, _, err := s.Registry.Push(ctx, ref, t); err != nil {
			return err
		}
		a.result(ref + "@" + digest.String())
	}
	return nil
}

func newPushCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "push IMAGE REGISTRY/PATH:TAG", Short: "Push an image or index that was built before", Args: exactArgs(2),
		Long: "Push what a build has written: oci:DIR[:TAG], oci-archive:FILE[:TAG] or docker-archive:FILE. Only what the registry\n" +
			"lacks is sent, an upload that breaks off goes on where it was, and the tag moves when everything is there.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if !oci.IsLocal(args[0]) {
				return usageError{fmt.Errorf("push %s: give oci:DIR[:TAG], oci-archive:FILE or docker-archive:FILE", args[0])}
			}
			if oci.IsLocal(args[1]) {
				return usageError{fmt.Errorf("push to %s: give REGISTRY/PATH:TAG", args[1])}
			}
			for _, name := range args {
				if err := registry.CheckSource(name); err != nil {
					return usageError{fmt.Errorf("push %w", err)}
				}
			}
			return a.with(cmd.Context(), nil, a.programs(""), func(ctx context.Context, s *session) error {
				artifact, err := s.Registry.Local(ctx, args[0])
				if err != nil {
					return err
				}
				digest, stats, err := s.Registry.Push(ctx, args[1], artifact)
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
