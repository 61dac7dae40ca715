package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/images/oci"
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

// parse checks all outputs before anything is done. none says that nothing is written unless an output is
// named.
func (o *outputFlags) parse(none bool) ([]output, error) {
	var outs []output
	for _, v := range o.outputs {
		kind, path, ok := strings.Cut(v, ":")
		if !ok || path == "" {
			return nil, usageError{fmt.Errorf("--output %q: give oci:DIR, oci-archive:FILE or docker-archive:FILE", v)}
		}
		switch kind {
		case "oci", "oci-archive", "docker-archive":
			outs = append(outs, output{kind, path})
		default:
			return nil, usageError{fmt.Errorf("--output %q: %q is not known: use oci, oci-archive or docker-archive", v, kind)}
		}
	}
	if len(outs) == 0 && !o.push && !none {
		outs = []output{{"oci", "dist"}}
	}
	return outs, nil
}

// output is one --output.
type output struct{ kind, path string }

// check refuses what the format cannot hold. tags is the number of tags, archs that of the architectures of
// the first tag.
func (o output) check(tags, archs int, zstd bool) error {
	switch {
	case o.kind != "oci" && tags > 1:
		return usageError{fmt.Errorf("--output %s:%s: an archive holds one image, %d are to be built: use oci:DIR", o.kind, o.path, tags)}
	case o.kind == "docker-archive" && archs > 1:
		return usageError{fmt.Errorf("--output %s:%s: docker load knows one architecture: use oci:DIR or oci-archive:FILE", o.kind, o.path)}
	case o.kind == "docker-archive" && zstd:
		return usageError{fmt.Errorf("--output %s:%s: docker load cannot read zstd layers: use --compression gzip", o.kind, o.path)}
	}
	return nil
}

// write stores an artifact under its tag and returns the line for stdout, without digest.
func (o output) write(ctx context.Context, repository, tag string, t oci.Artifact) (string, error) {
	switch o.kind {
	case "oci":
		return "oci:" + o.path + ":" + tag, oci.WriteLayout(ctx, o.path, tag, t)
	case "oci-archive":
		return "oci-archive:" + o.path + ":" + tag, oci.WriteOCIArchive(ctx, o.path, tag, t)
	default:
		if repository == "" {
			repository = "driver"
		}
		return "docker-archive:" + o.path + ":" + repository + ":" + tag, oci.WriteDockerArchive(ctx, o.path, repository+":"+tag, t)
	}
}

// publish writes an artifact to all outputs, pushes it, and prints a line for each.
func (a *app) publish(ctx context.Context, s *session, o outputFlags, outs []output, tag string, t oci.Artifact) error {
	digest, err := t.Digest()
	if err != nil {
		return err
	}
	for _, out := range outs {
		step := s.step(tag, "write "+out.kind+":"+out.path)
		ref, err := out.write(ctx, o.repository, tag, t)
		if step.End(false, err) != nil {
			return fmt.Errorf("write %s:%s: %w", out.kind, out.path, err)
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
