package main

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/distros/textfile"
	"github.com/driver-container/driver-container/images/attestation"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/documents"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/kmod/sign"
)

// buildFlags are the flags of the main command.
type buildFlags struct {
	flags.Common
	output      flags.Output
	dryRun      bool
	recipe      string // FILE
	runners     flags.Runners
	signer      flags.Signer
	imageSigner flags.ImageSigner
	record      flags.Record
	layers      flags.LayerCache
	public      flags.PublicRegistry

	again *recipe.Recipe // of --recipe
	// What images get, without tags and documents.
	plan     attestation.Plan
	recorded attestation.Record
}

// buildCommand is the command that builds, under a name.
func buildCommand(a *session.App, name string) *cobra.Command {
	var o buildFlags
	cmd := &cobra.Command{
		Use:  name + " --os SYSTEM --driver VERSION",
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), a) },
	}
	f := cmd.Flags()
	o.AddTo(f, flags.Targets, flags.Sources, flags.Kernels, flags.Programs, flags.Judged, "source profile lock repository")
	session.Describe(f, "repository", "`REGISTRY/PATH` to push to (default: $DRIVER_BUILD_REPOSITORY, else the matrix's)")
	session.Describe(f, "profile", "`NAME`: full has all user-mode libraries but X's; compute what CUDA, NVML, OpenCL and video need; "+
		"cuda what CUDA and NVML need; cuda-tu10x, cuda-ga10x one firmware; modules nothing: only those of --kernel (default: the matrix's)")
	session.Choice(f, &o.Compression, "compression", "", "of the layers; auto is zstd, but gzip for old systems, --kmm and docker-archive: auto, gzip or zstd")
	o.output.AddTo(f, "push to the repository, tagged <driver>-<os>")
	f.BoolVar(&o.dryRun, "dry-run", false, "print the recipes as JSON and build nothing")
	f.StringVar(&o.recipe, "recipe", "", "`FILE` with a recipe, as --dry-run prints it, or a provenance: build it again, instead of images of the matrix")
	o.runners.AddTo(f)
	o.signer.AddTo(f)
	o.imageSigner.AddTo(f)
	o.record.AddTo(f)
	o.layers.AddTo(f)
	o.public.AddTo(f)
	return cmd
}

// maxRecipe bounds the file of --recipe, in bytes: a provenance is the longest that it can be.
const maxRecipe = 16 << 20

// choose finds the targets: those that the flags select of the matrix, or the one of the recipe.
func (o *buildFlags) choose(a *session.App) error {
	if o.recipe == "" {
		_, err := o.Choose(a)
		return err
	}
	s := &o.Selection
	if len(s.Systems)+len(s.Drivers)+len(s.Archs)+len(s.Flavours) > 0 || s.All || o.Given.Profile != "" || o.Given.LockFile != "" || o.Sources.Mirror != "" || o.Kernels.Compile() {
		return session.Usagef("--recipe says what is built: leave out what selects images (--os, --driver, --arch, --flavour, --all, --kernel), " +
			"--profile, --lock and --mirror")
	}
	text, err := textfile.Read(o.recipe, maxRecipe)
	if err == nil {
		o.again, err = documents.ReadRecipe(text)
	}
	if err != nil {
		return session.Usagef("--recipe %s: %w", o.recipe, err)
	}
	r := o.again
	target := matrix.Target{
		System: matrix.System{ID: r.System}, Driver: matrix.Driver{Version: r.Driver, Branch: r.Branch, VGPU: r.VGPU},
		Arch: r.Arch, Distro: r.Distro, Flavours: r.Flavours,
	}
	return o.Take(a, []matrix.Target{target}, string(r.Profile))
}

// check finds mistakes in the flags about what becomes of images.
func (o *buildFlags) check(ctx context.Context, getenv func(string) string) (err error) {
	o.output.Repository = o.Repository
	if o.output.Push && o.Repository == "" {
		return session.Usagef("--push: give --repository REGISTRY/PATH, DRIVER_BUILD_REPOSITORY in the environment, or defaults.repository in the matrix")
	}
	if err := errors.Join(o.output.Parse(o.dryRun), o.runners.Check(ctx, getenv), o.signer.Check(o.Kernels.Compile() || o.recipe != ""),
		o.public.CheckTargets(o.Targets, o.pushed(), o.layers.To), o.imageSigner.Check(false)); err != nil {
		return err
	}
	if o.Plan.Compression == "" && o.output.Docker() {
		o.Plan.Compression = recipe.Gzip
	}
	o.recorded, err = o.record.Check(getenv, o.imageSigner.Given())
	if err != nil {
		return err
	}
	o.recorded.Repository = o.Repository
	o.plan.Format = o.imageSigner.Format
	if o.imageSigner.Given() || !o.recorded.Empty() {
		return o.output.CheckAttached(o.imageSigner.Given(), o.plan.Format)
	}
	return nil
}

// pushed is the repository that images are pushed to; "": none.
func (o *buildFlags) pushed() string {
	if !o.output.Push {
		return ""
	}
	return o.Repository
}

func (o *buildFlags) run(ctx context.Context, a *session.App) (err error) {
	if err := o.choose(a); err != nil {
		return err
	}
	for _, t := range o.Targets {
		for _, rule := range t.Overridden {
			a.Warnings(t.Tag() + " " + t.Arch + ": built although " + rule)
		}
	}
	if err := o.check(ctx, a.Getenv); err != nil {
		return err
	}
	signer, err := o.signer.Load(a)
	if err != nil {
		return err
	}
	imageSigner, err := o.imageSigner.Load(a)
	if err != nil {
		return err
	}
	o.plan.Signer = imageSigner
	if err := o.layers.Check(o.pushed(), a.Offline, signer != nil, imageSigner); err != nil {
		return err
	}
	groups, err := o.groups(signer)
	if err != nil {
		return err
	}
	o.WarnOfFabric(a)
	if err := o.Report(a, o.Targets, true); err != nil {
		return err
	}
	if o.Lock != nil {
		o.recorded.Run.Lock = documents.Resource{Name: filepath.Base(o.Lock.File), Digest: map[string]string{"sha256": o.Lock.SHA256}}
	}
	o.output.Announce(a, o.dryRun)
	return o.With(ctx, a, true, func(ctx context.Context, s *session.Session) error {
		s.Signer = signer
		if o.output.Push && !o.dryRun {
			if err := s.Registry.CheckPush(ctx, o.Repository); err != nil {
				return err
			}
		}
		if o.again != nil {
			if err := s.Localize(o.again, o.Sources.Base, o.Plan.Source); err != nil {
				return err
			}
		}
		if !o.dryRun {
			o.layers.Attach(ctx, s, len(o.output.Places) > 0)
			o.recorded.Finished = s.Finished
		}
		closeRunner := o.runners.Attach(s)
		return errors.Join(o.build(ctx, a, s, groups), closeRunner())
	})
}

// groups opens the lock and returns the images that the flags name. It returns none where only the
// repositories know which kernels are meant.
func (o *buildFlags) groups(signer *sign.Signer) (groups []batch.Group, err error) {
	if signer != nil {
		o.Plan.Signer = signer.Certificate
	}
	if r := o.again; r != nil {
		is := ""
		if signer != nil {
			is = sign.Fingerprint(signer.Certificate.Raw)
		}
		if is != r.Signer {
			return nil, session.Usagef("--recipe: its modules are signed by the key of the certificate with the SHA-256 %q, and this build signs with %q: give its --module-key, "+
				"or check the image with driver-build verify --rebuild, which takes the signatures over", r.Signer, is)
		}
		groups = []batch.Group{{Tag: r.Tag, Aliases: r.Aliases, Images: []batch.Image{{Target: o.Targets[0], Recipe: r}}}}
	} else if groups, err = o.NamedGroups(); err != nil || groups == nil {
		return nil, err
	}
	return groups, o.checkGroups(groups)
}

// checkGroups refuses what the outputs cannot hold.
func (o *buildFlags) checkGroups(groups []batch.Group) error {
	zstd := o.Plan.Compression == recipe.Zstd || o.again != nil && o.again.Compression == recipe.Zstd
	return o.output.CheckContent(len(groups), len(groups[0].Images), zstd)
}

// build builds and publishes the images of all tags, or prints their recipes.
func (o *buildFlags) build(ctx context.Context, a *session.App, s *session.Session, groups []batch.Group) error {
	plans, err := batch.NewPlans(s.Builder)
	if err != nil {
		return err
	}
	if groups == nil {
		groups, err = o.Groups(o.Offered(ctx, plans))
		if err == nil {
			err = o.checkGroups(groups)
		}
		if err != nil {
			return err
		}
	}
	return batch.Each(ctx, a.Jobs, groups, func(g batch.Group) error {
		if o.dryRun {
			return o.Recipes(ctx, plans, g, func(r *recipe.Recipe) error {
				text, err := json.MarshalIndent(r.Public(), "", "  ")
				a.Result(string(text))
				return err
			})
		}
		built, err := o.Build(ctx, plans, g)
		if err != nil {
			return err
		}
		plan := o.plan
		plan.Tags = append([]string{g.Tag}, g.Aliases...)
		if !o.recorded.Empty() {
			plan.Documents, err = o.recorded.Documents(ctx, s.Layers(), built.Artifact, built.Images, built.Recipes)
			if err != nil {
				return err
			}
		}
		if err := o.layers.Complete(ctx, s, o.pushed(), built.Images); err != nil {
			return err
		}
		if err := o.output.Publish(ctx, a, s, built.Artifact, plan); err != nil {
			return err
		}
		return o.layers.Publish(ctx, s, o.pushed(), built.Artifact, built.Images, plan)
	})
}
