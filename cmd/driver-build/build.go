package main

import (
	"cmp"
	"context"
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/attestation"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/documents"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/signature"
)

// buildFlags are the flags of the main command.
type buildFlags struct {
	selection   flags.Selection
	output      flags.Output
	sources     flags.Sources
	profile     string
	compression string
	programs    flags.Programs
	dryRun      bool
	recipe      string
	lock        string
	kernels     flags.Kernels
	runners     flags.Runners
	signer      flags.Signer
	imageSigner flags.ImageSigner
	record      flags.Record
	layers      flags.LayerCache
	public      flags.PublicRegistry
	advisories  flags.Advisories
}

func (o *buildFlags) addTo(f *pflag.FlagSet) {
	o.selection.AddTo(f)
	o.output.AddTo(f)
	f.BoolVar(&o.output.Push, "push", false, "push to the repository, tagged <driver>-<os>")
	f.StringVar(&o.output.Repository, "repository", "", "REGISTRY/PATH to push to (default: $DRIVER_BUILD_REPOSITORY, else the matrix's)")
	o.sources.AddTo(f)
	o.sources.AddSource(f)
	f.StringVar(&o.profile, "profile", "", "full: all user-mode libraries but X; compute: what CUDA, NVML, OpenCL and video need; "+
		"cuda: what CUDA and NVML need; cuda-tu10x, cuda-ga10x: with one firmware (default: the matrix's)")
	f.StringVar(&o.compression, "compression", "gzip", "of the layers: gzip or zstd")
	o.programs.AddTo(f)
	f.BoolVar(&o.dryRun, "dry-run", false, "print the recipes as JSON and build nothing")
	f.StringVar(&o.recipe, "recipe", "", "FILE with a recipe, as --dry-run prints it, or a provenance: build it again, instead of images of the matrix")
	flags.Lock(f, &o.lock)
	o.kernels.AddTo(f)
	o.runners.AddTo(f)
	o.signer.AddTo(f)
	o.imageSigner.AddTo(f)
	o.record.AddTo(f)
	o.layers.AddTo(f)
	o.public.AddTo(f)
	o.advisories.AddTo(f)
}

// check finds mistakes in the flags, and completes them with the defaults of the matrix.
func (o *buildFlags) check(a *session.App, d matrix.Defaults) (p recipe.Options, outs []oci.Output, err error) {
	o.output.Repository = a.Repository(o.output.Repository, d)
	if outs, err = o.output.Parse(o.dryRun); err != nil {
		return p, nil, err
	}
	if o.output.Push && o.output.Repository == "" {
		return p, nil, session.Usagef("--push: give --repository REGISTRY/PATH, DRIVER_BUILD_REPOSITORY in the environment, or defaults.repository in the matrix")
	}
	if p, err = o.sources.Options(cmp.Or(o.profile, d.Profile), o.compression, a.Getenv("SOURCE_DATE_EPOCH")); err != nil {
		return p, nil, err
	}
	err = errors.Join(o.kernels.Check(), o.runners.Check(a.Getenv), o.signer.Check(o.kernels.Compile() || o.recipe != ""))
	if err != nil {
		return p, nil, session.Usage(err)
	}
	return p, outs, nil
}

// publication says where images go, and what they get there.
type publication struct {
	outs   []oci.Output
	plan   attestation.Plan // without tags and documents
	record attestation.Record
}

// checkSigning finds mistakes in what images get, and completes the publication.
func (o *buildFlags) checkSigning(getenv func(string) string, p *publication) (err error) {
	if err := o.imageSigner.Check(false); err != nil {
		return err
	}
	if p.record, err = o.record.Check(getenv, o.imageSigner.Given()); err != nil {
		return err
	}
	p.record.Repository, p.plan.Format = o.output.Repository, o.imageSigner.Format
	if o.imageSigner.Given() {
		return o.output.CheckSigned(p.outs, p.plan.Format)
	}
	if !p.record.Empty() {
		return flags.CheckAttached(p.outs)
	}
	return nil
}

// pushed is the repository that images are pushed to; "": none.
func (o *buildFlags) pushed() string {
	if !o.output.Push {
		return ""
	}
	return o.output.Repository
}

// checkLayers finds mistakes in the flags of the cache of layers.
func (o *buildFlags) checkLayers(a *session.App, imageSigner signature.Signer, signsModules bool) error {
	var key crypto.PublicKey
	if imageSigner != nil {
		key = imageSigner.Public()
	}
	return o.layers.Check(o.pushed(), a.Offline, imageSigner != nil || signsModules, key)
}

func (o *buildFlags) run(ctx context.Context, a *session.App) (err error) {
	if err := o.advisories.Check(); err != nil {
		return err
	}
	m, b, again, err := o.batch(a)
	if err != nil {
		return err
	}
	for _, t := range b.Targets {
		for _, rule := range t.Overridden {
			fmt.Fprintf(a.Stderr, "warning: %s %s: built although %s\n", t.Tag(), t.Arch, rule)
		}
	}
	var p publication
	if b.Plan, p.outs, err = o.check(a, m.Defaults); err != nil {
		return err
	}
	if err := o.public.CheckTargets(b.Targets, o.pushed(), o.layers.To); err != nil {
		return err
	}
	if err := o.checkSigning(a.Getenv, &p); err != nil {
		return err
	}
	b.Kernels, b.Given.LockFile = o.kernels.Kernels, o.lock
	signer, closer, err := o.signer.Load(a.Getenv)
	if err != nil {
		return session.Usage(err)
	}
	defer func() { err = errors.Join(err, closer()) }()
	if signer != nil {
		b.Plan.Signer = signer.Certificate
	}
	imageSigner, closeImageSigner, err := o.imageSigner.Load(a.Getenv)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeImageSigner()) }()
	p.plan.Signer = imageSigner
	if err := o.checkLayers(a, imageSigner, signer != nil); err != nil {
		return err
	}
	var groups []batch.Group
	if again == nil {
		groups, err = groupsFromFlags(&b, p.outs)
	} else {
		groups = []batch.Group{{Tag: again.Tag, Aliases: again.Aliases, Images: []batch.Image{{Target: b.Targets[0], Recipe: again}}}}
		err = errors.Join(checkSigner(again, signer), checkGroups(&b, groups, p.outs))
	}
	if err != nil {
		return err
	}
	if err := o.advisories.Report(a, b.Targets); err != nil {
		return err
	}
	if b.Lock != nil {
		p.record.Run.Lock = documents.Resource{Name: filepath.Base(b.Lock.File), Digest: map[string]string{"sha256": b.Lock.SHA256}}
	}
	programs, err := o.programs.Find(ctx, a, b.Targets)
	if err != nil {
		return err
	}
	return a.With(ctx, m.Defaults.Mirrors, programs, func(ctx context.Context, s *session.Session) error {
		if o.output.Push && !o.dryRun {
			if err := s.Registry.CheckPush(ctx, o.output.Repository); err != nil {
				return err
			}
		}
		if again != nil {
			if err := s.Localize(again, o.sources.Base, b.Plan.Source); err != nil {
				return err
			}
		}
		s.Signer = signer
		if !o.dryRun {
			o.layers.Attach(ctx, s, len(p.outs) > 0)
			p.record.Finished = s.Finished
		}
		closeRunner := o.runners.Attach(s)
		return errors.Join(o.buildGroups(ctx, a, s, &b, groups, p), closeRunner())
	})
}

// groupsFromFlags opens the lock and returns the images that the flags name. It returns none where only the
// repositories know which kernels are meant: see groupsFromRepositories.
func groupsFromFlags(b *batch.Batch, outs []oci.Output) ([]batch.Group, error) {
	if err := b.OpenLock(); err != nil || b.NeedsIndex() {
		return nil, err
	}
	groups, err := b.Groups(nil)
	if err != nil {
		return nil, err
	}
	return groups, checkGroups(b, groups, outs)
}

// groupsFromRepositories asks the repositories for the kernels where only they know which kernels are meant.
// It returns groups otherwise.
func groupsFromRepositories(ctx context.Context, plans *batch.Plans, b *batch.Batch, groups []batch.Group,
	outs []oci.Output) ([]batch.Group, error) {
	if !b.NeedsIndex() {
		return groups, nil
	}
	groups, err := b.Groups(b.Offered(ctx, plans))
	if err != nil {
		return nil, err
	}
	return groups, checkGroups(b, groups, outs)
}

// checkGroups refuses what the outputs cannot hold.
func checkGroups(b *batch.Batch, groups []batch.Group, outs []oci.Output) error {
	if err := flags.CheckContent(outs, len(groups), len(groups[0].Images), b.Plan.Compression == recipe.Zstd); err != nil {
		return err
	}
	if b.Plan.Source != "" && len(b.Targets) > 1 {
		return session.Usagef("--source is one archive: it needs one driver and one architecture")
	}
	return nil
}

// buildGroups builds and publishes the images of all tags, or prints their recipes.
func (o *buildFlags) buildGroups(ctx context.Context, a *session.App, s *session.Session, b *batch.Batch, groups []batch.Group,
	p publication) error {
	plans, err := batch.NewPlans(s.Builder)
	if err != nil {
		return err
	}
	if groups, err = groupsFromRepositories(ctx, plans, b, groups, p.outs); err != nil {
		return err
	}
	if !o.dryRun {
		plans.Expect(groups)
	}
	return batch.Each(ctx, a.Jobs, groups, func(g batch.Group) error {
		if o.dryRun {
			return b.Recipes(ctx, plans, g, func(r *recipe.Recipe) error { return printRecipe(a, r) })
		}
		built, err := b.Build(ctx, plans, g)
		if err != nil {
			return err
		}
		plan := p.plan
		plan.Tags = append([]string{g.Tag}, g.Aliases...)
		if !p.record.Empty() {
			if plan.Documents, err = p.record.Documents(ctx, s.Layers(), built.Artifact, built.Images, built.Recipes); err != nil {
				return err
			}
		}
		if err := o.layers.Complete(ctx, s, o.pushed(), built.Images); err != nil {
			return err
		}
		if err := o.output.Publish(ctx, a, s, p.outs, built.Artifact, plan); err != nil {
			return err
		}
		return o.layers.Publish(ctx, s, o.pushed(), built.Artifact, built.Images, plan)
	})
}

func printRecipe(a *session.App, r *recipe.Recipe) error {
	b, err := json.MarshalIndent(r.Public(), "", "  ")
	if err != nil {
		return err
	}
	a.Result(string(b))
	return nil
}
