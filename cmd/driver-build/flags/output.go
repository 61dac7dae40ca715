package flags

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/attestation"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/signature"
)

// Output says where images go. The help of --push and --repository is the command's.
type Output struct {
	Outputs    []string
	Push       bool
	Repository string
}

// AddTo declares --output.
func (o *Output) AddTo(f *pflag.FlagSet) {
	f.StringArrayVar(&o.Outputs, "output", nil, "oci:DIR, oci-archive:FILE or docker-archive:FILE (repeatable; default oci:dist, unless --push)")
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

// CheckSigned refuses to sign what cannot hold signatures, or has no name for them.
func (o *Output) CheckSigned(outs []oci.Output, format signature.Format) error {
	if err := CheckAttached(outs); err != nil {
		return err
	}
	if o.Repository == "" && format != signature.Bundle {
		return session.Usagef("a signature states the image's name: give --repository REGISTRY/PATH")
	}
	return nil
}

// CheckAttached refuses outputs that have no place for what belongs to images.
func CheckAttached(outs []oci.Output) error {
	for _, out := range outs {
		if out.Kind == "docker-archive" {
			return session.Usagef("--output %s has no place for signatures and documents: give oci:DIR or oci-archive:FILE", out)
		}
	}
	return nil
}

// Publish writes an artifact under the tags of the plan to all outputs, pushes it, attaches what the plan
// has, and prints a line for each name.
func (o *Output) Publish(ctx context.Context, a *session.App, s *session.Session, outs []oci.Output, t oci.Artifact, p attestation.Plan) error {
	digest, err := t.Digest()
	if err != nil {
		return err
	}
	p.Repository = o.Repository
	for _, out := range outs {
		step := s.Step(p.Tags[0], "write "+out.String())
		refs, err := p.Write(ctx, out, t)
		if step.End(false, err) != nil {
			return err
		}
		for _, ref := range refs {
			a.Result(ref + "@" + digest.String())
		}
	}
	if o.Push {
		if err := p.Push(ctx, s.Registry, t); err != nil {
			return err
		}
		for _, tag := range p.Tags {
			a.Result(o.Repository + ":" + tag + "@" + digest.String())
		}
	}
	return nil
}
