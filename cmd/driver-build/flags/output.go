package flags

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/oci"
)

// Output says where images go. The help of --push and --repository is the command's.
type Output struct {
	Outputs    []string
	Push       bool
	Repository string
}

// AddTo declares --output.
func (o *Output) AddTo(f *pflag.FlagSet) {
	f.StringArrayVarP(&o.Outputs, "output", "o", nil, "oci:DIR, oci-archive:FILE or docker-archive:FILE (repeatable; default oci:dist, unless --push)")
}

// Parse checks all outputs before anything is done, and the repository. dry says that nothing is written.
func (o *Output) Parse(dry bool) ([]oci.Output, error) {
	if err := batch.CheckRepository(o.Repository); err != nil {
		return nil, err
	}
	outs, err := oci.ParseOutputs(o.Outputs)
	if err != nil {
		return nil, session.Usagef("--output %w", err)
	}
	if dry {
		return outs, nil
	}
	if len(outs) == 0 && !o.Push {
		outs = []oci.Output{{Kind: "oci", Path: "dist"}}
	}
	for _, out := range outs {
		if err := out.Check(); err != nil {
			return nil, session.Usagef("--output %w", err)
		}
	}
	return outs, nil
}

// CheckContent refuses what the outputs cannot hold.
func CheckContent(outs []oci.Output, tags, archs int, zstd bool) error {
	for _, out := range outs {
		if err := out.CheckContent(tags, archs, zstd); err != nil {
			return session.Usagef("--output %w", err)
		}
	}
	return nil
}

// Publish writes an artifact to all outputs, pushes it, and prints a line for each.
func (o *Output) Publish(ctx context.Context, a *session.App, s *session.Session, outs []oci.Output, tag string, t oci.Artifact) error {
	digest, err := t.Digest()
	if err != nil {
		return err
	}
	for _, out := range outs {
		step := s.Step(tag, "write "+out.String())
		ref, err := out.Write(ctx, o.Repository, tag, t)
		if step.End(false, err) != nil {
			return err
		}
		a.Result(ref + "@" + digest.String())
	}
	if o.Push {
		ref := o.Repository + ":" + tag
		if _, _, err := s.Registry.Push(ctx, ref, t); err != nil {
			return err
		}
		a.Result(ref + "@" + digest.String())
	}
	return nil
}
