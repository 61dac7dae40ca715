package flags

import (
	"context"
	"slices"

	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/attestation"
	"github.com/driver-container/driver-container/images/documents"
	"github.com/driver-container/driver-container/images/imagename"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/signature"
)

// Output says where images go.
type Output struct {
	Outputs    []string
	Push       bool
	Repository string
	Places     []oci.Output // of Outputs, after Parse
}

// AddTo declares --output, and --push with its help.
func (o *Output) AddTo(f *pflag.FlagSet, push string) {
	f.StringArrayVar(
		&o.Outputs,
		"output",
		nil,
		"`oci:DIR`, oci-archive:FILE or docker-archive:FILE (repeatable; default oci:dist, unless --push)",
	)
	f.BoolVar(&o.Push, "push", false, push)
}

// Parse checks all outputs before anything is done. dry says that nothing is written.
func (o *Output) Parse(dry bool) (err error) {
	o.Places, err = oci.ParseOutputs(o.Outputs)
	if err != nil {
		return session.Usagef("--output %w", err)
	}
	if dry {
		return nil
	}
	if len(o.Places) == 0 && !o.Push {
		o.Places = []oci.Output{{Kind: "oci", Path: "dist"}}
	}
	for _, out := range o.Places {
		if err := out.Check(); err != nil {
			return session.Usagef("--output %w", err)
		}
	}
	return nil
}

// Announce says where images will be, if the flags do not: before the work that takes minutes.
func (o *Output) Announce(a *session.App, dry bool) {
	if dry || o.Push || len(o.Outputs) > 0 || a.Quiet() {
		return
	}
	a.Notes(
		"the result goes to " + o.Places[0].String() + ", a folder here: --output or --push names another place",
	)
}

// Docker says whether an output is an archive for Docker, which has gzip layers only.
func (o *Output) Docker() bool {
	return slices.ContainsFunc(
		o.Places,
		func(out oci.Output) bool { return out.Kind == "docker-archive" },
	)
}

// CheckContent refuses what the outputs cannot hold.
func (o *Output) CheckContent(tags, archs int, zstd bool) error {
	for _, out := range o.Places {
		if err := out.CheckContent(tags, archs, zstd); err != nil {
			return session.Usagef("--output %w", err)
		}
	}
	return nil
}

// CheckAttached refuses outputs that have no place for what belongs to images, and signatures
// without a name to state.
func (o *Output) CheckAttached(signed bool, format signature.Format) error {
	if o.Docker() {
		return session.Usagef(
			"--output docker-archive has no place for signatures and documents: give oci:DIR or oci-archive:FILE",
		)
	}
	if signed && o.Repository == "" && format != signature.Bundle {
		return session.Usagef(
			"a signature states the image's name: give --repository REGISTRY/PATH",
		)
	}
	return nil
}

// Publish writes an artifact under the tags of the plan to all outputs, pushes it, attaches what
// the plan has, and prints a line for each name.
func (o *Output) Publish(
	ctx context.Context,
	a *session.App,
	s *session.Session,
	t oci.Artifact,
	p attestation.Publication,
) error {
	digest, err := t.Digest()
	if err != nil {
		return err
	}
	p.Repository = o.Repository
	for _, out := range o.Places {
		step := s.Builder.Observe.Begin(p.Tags[0], "write "+out.String())
		refs, err := p.Write(ctx, out, t)
		if step.End(false, err) != nil {
			return err
		}
		for _, ref := range refs {
			a.Result(ref + "@" + digest.String())
		}
	}
	if o.Push {
		if err := p.Push(ctx, s.Builder.Registry, t); err != nil {
			return err
		}
		for _, tag := range p.Tags {
			a.Result(o.Repository + ":" + tag + "@" + digest.String())
		}
	}
	return nil
}

// PublicRegistry says that images with a vGPU guest driver may go to a registry that is known to be
// public.
type PublicRegistry struct{ Allowed bool }

// AddTo declares --allow-public-registry.
func (p *PublicRegistry) AddTo(f *pflag.FlagSet) {
	session.Rare(f, func(f *pflag.FlagSet) {
		f.BoolVar(
			&p.Allowed,
			"allow-public-registry",
			false,
			"send images with a vGPU guest driver to Docker Hub, ghcr.io, quay.io and the like: the "+
				"repository is private",
		)
	})
}

// AddMountFromTo declares --mount-from.
func AddMountFromTo(f *pflag.FlagSet, a *session.App) {
	session.Rare(f, func(f *pflag.FlagSet) {
		f.Var(
			session.Array(&a.MountFrom, session.Valid(imagename.CheckRepository)),
			"mount-from",
			"repository of the same registry that may have the blobs already (repeatable)",
		)
	})
}

// CheckTargets refuses repositories for images of targets, before anything is built.
func (p *PublicRegistry) CheckTargets(targets []matrix.Target, repositories ...string) error {
	guest := slices.IndexFunc(targets, func(t matrix.Target) bool { return t.Driver.VGPU != "" })
	if guest < 0 || p.Allowed {
		return nil
	}
	for _, repository := range repositories {
		if repository == noRepository {
			continue
		}
		if err := registry.CheckPublic(targets[guest].Tag(), targets[guest].Driver.VGPU, repository); err != nil {
			return err
		}
	}
	return nil
}

// CheckImage refuses a repository for an image that is there already.
func (p *PublicRegistry) CheckImage(
	ctx context.Context,
	s *session.Session,
	image, repository string,
) error {
	if p.Allowed {
		return nil
	}
	return registry.CheckPublicArtifact(image, repository, func() (oci.Artifact, error) {
		opened, err := s.Builder.Registry.Open(ctx, image, registry.OpenOptions{})
		if err != nil {
			return nil, err
		}
		return opened.Artifact, nil
	})
}

// The values of --provenance.
const (
	byDriverBuild = "driver-build"
	byCI          = "ci"
)

// Record says which documents a build gives to its images.
type Record struct {
	sbom       documents.Format
	provenance string
}

// AddTo declares the flags.
func (r *Record) AddTo(f *pflag.FlagSet) {
	session.Mode(
		f,
		&r.sbom,
		"sbom",
		"attach a bill of materials in a `FORMAT`",
		documents.SPDX,
		documents.CycloneDX,
	)
	session.Mode(
		f,
		&r.provenance,
		"provenance",
		"attach a signed statement how the image was built, by this program or the job that runs it, "+
			"`BY`",
		byDriverBuild,
		byCI,
	)
}

// Check returns what the flags ask for. signed says whether there is a key.
func (r *Record) Check(
	getenv func(string) string,
	signed bool,
) (out attestation.BuildDocuments, err error) {
	out.SBOM = r.sbom
	out.Provenance = r.provenance != ""
	if r.provenance == byCI {
		out.Run.CI, err = documents.FromCI(getenv)
		if err != nil {
			return out, session.Usagef(
				"--provenance=ci: %w: give --provenance, which names driver-build as the builder",
				err,
			)
		}
	}
	if out.Provenance && !signed {
		return out, session.Usagef(
			"--provenance is a statement that is signed: give --image-key or --image-signer",
		)
	}
	return out, nil
}
