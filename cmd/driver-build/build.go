package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/recipe"
)

// buildFlags are the flags of the main command.
type buildFlags struct {
	selection   selectionFlags
	output      outputFlags
	sources     sourceFlags
	profile     string
	compression string
	entrypoint  string
	dryRun      bool
	lock        string
	kernels     kernelFlags
	runners     runnerFlags
	signer      signerFlags
}

func (o *buildFlags) flags(f *pflag.FlagSet) {
	o.selection.flags(f)
	o.output.flags(f)
	f.BoolVar(&o.output.push, "push", false, "push to the repository, tagged <driver>-<os>")
	f.StringVar(&o.output.repository, "repository", "", "REGISTRY/PATH to push to (default: the matrix's)")
	o.sources.flags(f)
	o.sources.sourceFlag(f)
	f.StringVar(&o.profile, "profile", "", "full: all user-mode libraries but X; compute: what CUDA, NVML and video need (default: the matrix's)")
	f.StringVar(&o.compression, "compression", "gzip", "of the layers: gzip or zstd")
	f.StringVar(&o.entrypoint, "entrypoint", "", "driver-entrypoint to put in (default: the one beside this program)")
	f.BoolVar(&o.dryRun, "dry-run", false, "print the recipes as JSON and build nothing")
	lockFlag(f, &o.lock)
	o.kernels.flags(f)
	o.runners.flags(f)
	o.signer.flags(f)
}

// check finds mistakes in the flags, and completes them with the defaults of the matrix.
func (o *buildFlags) check(d matrix.Defaults, getenv func(string) string) (p recipe.Options, outs []oci.Output, err error) {
	o.output.repository = cmp.Or(o.output.repository, d.Repository)
	if outs, err = o.output.parse(o.dryRun); err != nil {
		return p, nil, err
	}
	if o.output.push && o.output.repository == "" {
		return p, nil, usageError{errors.New("--push: give --repository REGISTRY/PATH, or defaults.repository in the matrix")}
	}
	if p, err = o.sources.Options(cmp.Or(o.profile, d.Profile), o.compression, getenv("SOURCE_DATE_EPOCH")); err != nil {
		return p, nil, err
	}
	err = errors.Join(o.kernels.Check(), o.runners.check(getenv), o.signer.check(len(o.kernels.Specs) > 0))
	if err != nil {
		return p, nil, usageError{err}
	}
	return p, outs, nil
}

func (a *app) build(ctx context.Context, o buildFlags) (err error) {
	m, b, err := o.selection.batch()
	if err != nil {
		return err
	}
	for _, t := range b.Targets {
		for _, rule := range t.Overridden {
			fmt.Fprintf(a.stderr, "warning: %s %s: built although %s\n", t.Tag(), t.Arch, rule)
		}
	}
	var outs []oci.Output
	if b.Plan, outs, err = o.check(m.Defaults, a.getenv); err != nil {
		return err
	}
	b.Kernels, b.Given.LockFile = o.kernels.Kernels, o.lock
	signer, closer, err := o.signer.load(a.getenv)
	if err != nil {
		return usageError{err}
	}
	defer func() { err = errors.Join(err, closer()) }()
	if signer != nil {
		b.Plan.Signer = signer.Certificate
	}
	groups, err := groupsFromFlags(&b, outs)
	if err != nil {
		return err
	}
	programs := a.programs(o.entrypoint)
	if err := batch.CheckPrograms(programs, b.Targets); err != nil {
		return err
	}
	return a.with(ctx, m.Defaults.Mirrors, programs, func(ctx context.Context, s *session) error {
		if o.output.push && !o.dryRun {
			if err := s.Registry.CheckPush(ctx, o.output.repository); err != nil {
				return err
			}
		}
		s.Signer = signer
		closeRunner := o.runners.attach(s.Builder, func(line string) { _ = s.step("builder", line).End(false, nil) })
		return errors.Join(a.buildGroups(ctx, s, &b, o, groups, outs), closeRunner())
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
func groupsFromRepositories(ctx context.Context, s *session, b *batch.Batch, groups []batch.Group, outs []oci.Output) ([]batch.Group, error) {
	if !b.NeedsIndex() {
		return groups, nil
	}
	groups, err := b.Groups(func(t matrix.Target) ([]distros.Kernel, error) { return s.Kernels(ctx, t, b.Plan) })
	if err != nil {
		return nil, err
	}
	return groups, checkGroups(b, groups, outs)
}

// checkGroups refuses what the outputs cannot hold.
func checkGroups(b *batch.Batch, groups []batch.Group, outs []oci.Output) error {
	if err := checkContent(outs, len(groups), len(groups[0].Images), b.Plan.Compression == recipe.Zstd); err != nil {
		return err
	}
	if b.Plan.Source != "" && len(b.Targets) > 1 {
		return usageError{errors.New("--source is one archive: it needs one driver and one architecture")}
	}
	return nil
}

// buildGroups builds and publishes the images of all tags, or prints their recipes.
func (a *app) buildGroups(ctx context.Context, s *session, b *batch.Batch, o buildFlags, groups []batch.Group, outs []oci.Output) error {
	groups, err := groupsFromRepositories(ctx, s, b, groups, outs)
	if err != nil {
		return err
	}
	return batch.Each(ctx, a.jobs, groups, func(g batch.Group) error {
		if o.dryRun {
			return b.Recipes(ctx, s.Builder, g, a.printRecipe)
		}
		artifact, err := b.Build(ctx, s.Builder, g)
		if err != nil {
			return err
		}
		for _, tag := range append([]string{g.Tag}, g.Aliases...) {
			if err := a.publish(ctx, s, o.output, outs, tag, artifact); err != nil {
				return err
			}
		}
		return nil
	})
}

func (a *app) printRecipe(r *recipe.Recipe) error {
	b, err := json.MarshalIndent(r.Public(), "", "  ")
	if err != nil {
		return err
	}
	a.result(string(b))
	return nil
}
