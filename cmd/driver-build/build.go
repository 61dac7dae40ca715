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
	request     flags.Request
	policy      flags.Policy
	output      flags.Output
	dryRun      bool
	recipe      string // FILE
	runners     flags.Runners
	signer      flags.Signer
	imageSigner flags.ImageSigner
	record      flags.Record
	layers      flags.LayerCache
	public      flags.PublicRegistry

	batch   *batch.Batch
	mirrors map[string][]string // of registries, in the matrix
	again   *recipe.Recipe      // of --recipe
	// What images get, without tags and documents.
	plan     attestation.Publication
	recorded attestation.BuildDocuments
}

// buildCommand is the command that builds, under a name.
func buildCommand(a *session.App, name string) *cobra.Command {
	var o buildFlags
	cmd := &cobra.Command{
		Use:  name + " --os SYSTEM --driver VERSION",
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), a) },
	}
	f := cmd.Flags()
	o.request.Targets.AddTo(f)
	o.request.Sources.AddTo(f)
	o.request.Sources.AddSourceTo(f)
	o.request.Kernels.AddTo(f)
	o.request.Programs.AddTo(f)
	o.request.Profile.AddTo(f)
	o.request.Lock.AddTo(f)
	o.request.Repository.AddTo(f, "push to")
	o.policy.AddTo(f)
	session.Choice(f, &o.request.Compression, "compression", "", "of the layers; auto is zstd, but gzip for old systems, --kmm and docker-archive: auto, gzip or zstd")
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
	if o.recipe != "" {
		return o.readRecipe(a)
	}
	m, err := o.request.Targets.Load(a)
	if err != nil {
		return err
	}
	o.mirrors = m.Defaults.Mirrors
	o.batch, err = o.request.Batch(a, m.Defaults)
	if err != nil {
		return err
	}
	return o.batch.Select(m)
}

// readRecipe reads the recipe of --recipe, which takes the place of a selection.
func (o *buildFlags) readRecipe(a *session.App) error {
	s := &o.request.Targets.Selection
	kernels := batch.Kernels(o.request.Kernels)
	if len(s.Systems)+len(s.Drivers)+len(s.Archs)+len(s.Flavours) > 0 || s.All ||
		o.request.Profile.Name != "" || o.request.Lock.File != "" || o.request.Sources.Mirror != "" ||
		kernels.Compile() {
		return session.Usagef("--recipe says what is built: leave out what selects images (--os, --driver, --arch, --flavour, --all, --kernel), " +
			"--profile, --lock and --mirror")
	}
	text, err := textfile.Read(o.recipe, maxRecipe)
	if err != nil {
		return session.Usagef("--recipe %s: %w", o.recipe, err)
	}
	o.again, err = documents.ReadRecipe(text)
	if err != nil {
		return session.Usagef("--recipe %s: %w", o.recipe, err)
	}
	r := o.again
	target := matrix.Target{
		System: matrix.System{ID: r.System}, Driver: matrix.Driver{Version: r.Driver, Branch: r.Branch, VGPU: r.VGPU},
		Arch: r.Arch, Distro: r.Distro, Flavours: r.Flavours,
	}
	o.batch, err = o.request.Batch(a, matrix.Defaults{Profile: string(r.Profile)})
	if err != nil {
		return err
	}
	o.batch.Targets = []matrix.Target{target}
	return nil
}

// check finds mistakes in the flags about what becomes of images.
func (o *buildFlags) check(ctx context.Context, getenv func(string) string) (err error) {
	o.output.Repository = o.batch.Repository
	if o.output.Push && o.batch.Repository == "" {
		return session.Usagef("--push: give --repository REGISTRY/PATH, DRIVER_BUILD_REPOSITORY in the environment, or defaults.repository in the matrix")
	}
	if err := errors.Join(o.output.Parse(o.dryRun), o.runners.Check(ctx, getenv), o.signer.Check(o.batch.Kernels.Compile() || o.recipe != ""),
		o.public.CheckTargets(o.batch.Targets, o.pushed(), o.layers.To), o.imageSigner.Check(false)); err != nil {
		return err
	}
	if o.batch.Plan.Compression == "" && o.output.Docker() {
		o.batch.Plan.Compression = recipe.Gzip
	}
	o.recorded, err = o.record.Check(getenv, o.imageSigner.Given())
	if err != nil {
		return err
	}
	o.recorded.Repository = o.batch.Repository
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
	return o.batch.Repository
}

func (o *buildFlags) run(ctx context.Context, a *session.App) (err error) {
	err = o.policy.Check()
	if err != nil {
		return err
	}
	err = o.choose(a)
	if err != nil {
		return err
	}
	for _, t := range o.batch.Targets {
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
	flags.WarnOfFabric(a, o.batch)
	err = o.policy.Report(a, o.batch.Targets, true)
	if err != nil {
		return err
	}
	if lock := o.batch.Lock; lock != nil {
		o.recorded.Run.Lock = documents.Resource{
			Name:   filepath.Base(lock.File),
			Digest: map[string]string{"sha256": lock.SHA256},
		}
	}
	o.output.Announce(a, o.dryRun)
	programs, err := o.request.Programs.Find(ctx, a, o.batch.Targets, true)
	if err != nil {
		return err
	}
	return a.Connect(ctx, o.mirrors, programs, func(ctx context.Context, s *session.Session) error {
		s.Signer = signer
		if o.output.Push && !o.dryRun {
			if err := s.Registry.CheckPush(ctx, o.batch.Repository); err != nil {
				return err
			}
		}
		if o.again != nil {
			if err := s.Localize(o.again, o.request.Sources.Base, o.batch.Plan.Source); err != nil {
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
		o.batch.Plan.Signer = signer.Certificate
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
		groups = []batch.Group{{Tag: r.Tag, Aliases: r.Aliases, Images: []batch.Image{{Target: o.batch.Targets[0], Recipe: r}}}}
	} else if groups, err = o.batch.NamedGroups(); err != nil || groups == nil {
		return nil, err
	}
	return groups, o.checkGroups(groups)
}

// checkGroups refuses what the outputs cannot hold.
func (o *buildFlags) checkGroups(groups []batch.Group) error {
	zstd := o.batch.Plan.Compression == recipe.Zstd || o.again != nil && o.again.Compression == recipe.Zstd
	return o.output.CheckContent(len(groups), len(groups[0].Images), zstd)
}

// build builds and publishes the images of all tags, or prints their recipes.
func (o *buildFlags) build(ctx context.Context, a *session.App, s *session.Session, groups []batch.Group) error {
	plans, err := batch.NewPlans(s.Builder)
	if err != nil {
		return err
	}
	if groups == nil {
		groups, err = o.batch.Groups(o.batch.Offered(ctx, plans))
		if err == nil {
			err = o.checkGroups(groups)
		}
		if err != nil {
			return err
		}
	}
	return batch.Each(ctx, a.Jobs, groups, func(g batch.Group) error {
		if o.dryRun {
			return o.batch.Recipes(ctx, plans, g, func(r *recipe.Recipe) error {
				text, err := json.MarshalIndent(r.Public(), "", "  ")
				a.Result(string(text))
				return err
			})
		}
		built, err := o.batch.Build(ctx, plans, g)
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
