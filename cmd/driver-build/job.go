package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
)

// item is one image to build.
type item struct {
	target matrix.Target
	plan   recipe.Options
	pins   *recipe.Pins // of the lock; nil: what goes in is found out now
}

// group is the images that share a tag: one, or an index of one an architecture.
type group struct {
	tag     string
	aliases []string // further tags of the same
	items   []item
}

func grouped(items []item) []group {
	var groups []group
	at := map[string]int{}
	for _, it := range items {
		tag, aliases := it.target.Tag(), recipe.AliasTags(it.target)
		if len(it.plan.Kernels) > 0 && !it.plan.Together {
			tag, aliases = recipe.KernelTags(it.target, it.plan.Kernels[0])
		}
		i, ok := at[tag]
		if !ok {
			i = len(groups)
			at[tag] = i
			groups = append(groups, group{tag: tag, aliases: aliases})
		}
		groups[i].items = append(groups[i].items, it)
	}
	return groups
}

// job is one call of the main command, its flags checked.
type job struct {
	app     *app
	options buildOptions
	targets []matrix.Target
	groups  []group
	plan    recipe.Options
	outputs []output
	lock    *lockFile // nil: there is none

	mu sync.Mutex // of stdout
}

func (j *job) check(d matrix.Defaults) (err error) {
	o := &j.options
	if j.outputs, err = parseOutputs(o.outputs); err != nil {
		return err
	}
	if len(j.outputs) == 0 && !o.push && !o.dryRun {
		j.outputs = []output{{"oci", "dist"}}
	}
	if o.repository == "" {
		o.repository = d.Repository
	}
	if o.push && o.repository == "" {
		return usageError{errors.New("--push: give --repository REGISTRY/PATH, or defaults.repository in the matrix")}
	}
	if o.profile == "" {
		o.profile = d.Profile
	}
	if j.plan, err = o.planOptions(j.app.getenv("SOURCE_DATE_EPOCH")); err != nil {
		return usageError{err}
	}
	if err := errors.Join(o.ahead.check(), o.builders.check(j.app.getenv), o.signer.check(len(o.ahead.kernels) > 0)); err != nil {
		return usageError{err}
	}
	return nil
}

// named groups the images that the flags name. Where only the repositories know which kernels are meant, resolve does it.
func (j *job) named() error {
	if j.lock != nil {
		items, err := j.lock.items(&j.options, j.targets, j.plan)
		if err != nil {
			return err
		}
		return j.group(items)
	}
	if j.options.ahead.listed() {
		return nil
	}
	items, err := j.options.ahead.items(j.targets, j.plan, j.options.selection, nil)
	if err != nil {
		return err
	}
	return j.group(items)
}

// group sorts images by tag and refuses what the outputs cannot hold.
func (j *job) group(items []item) error {
	j.groups = grouped(items)
	for _, out := range j.outputs {
		if err := out.check(j.groups, j.plan.Compression == recipe.Zstd); err != nil {
			return err
		}
	}
	if j.options.source != "" && len(j.targets) > 1 {
		return usageError{errors.New("--source is one archive: it needs one driver and one architecture")}
	}
	return nil
}

// resolve asks the repositories for the kernels where only they know which are meant.
func (j *job) resolve(ctx context.Context, s *session) error {
	if !j.options.ahead.listed() || j.lock != nil {
		return nil
	}
	items, err := j.options.ahead.items(j.targets, j.plan, j.options.selection, func(t matrix.Target) ([]distros.Kernel, error) {
		return s.builder.Kernels(ctx, t, j.plan)
	})
	if err != nil {
		return err
	}
	return j.group(items)
}

// run builds all groups. One that fails does not stop the others.
func (j *job) run(ctx context.Context, s *session) error {
	if err := j.resolve(ctx, s); err != nil {
		return err
	}
	errs := make([]error, len(j.groups))
	var eg errgroup.Group
	eg.SetLimit(max(1, j.app.jobs/2))
	for i, g := range j.groups {
		eg.Go(func() error {
			if errs[i] = context.Cause(ctx); errs[i] == nil {
				errs[i] = j.one(ctx, s, g)
			}
			return nil
		})
	}
	_ = eg.Wait() // the errors are in errs
	failed := 0
	for _, err := range errs {
		if err != nil {
			failed++
		}
	}
	if failed == 0 || len(j.groups) == 1 {
		return errors.Join(errs...)
	}
	return fmt.Errorf("%d of %d targets: %w:\n%w", failed, len(j.groups), errSomeFailed, errors.Join(errs...))
}

// one builds and publishes what belongs to one tag.
func (j *job) one(ctx context.Context, s *session, g group) error {
	built := make([]v1.Image, len(g.items))
	eg, ectx := errgroup.WithContext(ctx)
	for i, it := range g.items {
		eg.Go(func() error {
			r, err := it.recipe(ectx, s.builder)
			if err != nil {
				return err
			}
			if j.options.dryRun {
				return j.printRecipe(r)
			}
			built[i], err = s.builder.Build(ectx, r)
			return j.explain(ctx, s, it, err)
		})
	}
	if err := eg.Wait(); err != nil {
		return fmt.Errorf("%s: %w", g.tag, err)
	}
	if j.options.dryRun {
		return nil
	}
	artifact, err := images.Combine(built)
	if err != nil {
		return fmt.Errorf("%s: %w", g.tag, err)
	}
	for _, tag := range append([]string{g.tag}, g.aliases...) {
		if err := j.publish(ctx, s, tag, artifact); err != nil {
			return fmt.Errorf("%s: %w", g.tag, err)
		}
	}
	return nil
}

func (j *job) publish(ctx context.Context, s *session, tag string, t registry.Artifact) error {
	digest, err := t.Digest()
	if err != nil {
		return err
	}
	for _, out := range j.outputs {
		step := s.display.stepFor(tag, "write "+out.kind+":"+out.path)
		ref, err := out.write(ctx, j.options.repository, tag, t)
		if step.End(false, err) != nil {
			return fmt.Errorf("write %s:%s: %w", out.kind, out.path, err)
		}
		j.result(ref + "@" + digest.String())
	}
	if j.options.push {
		ref := j.options.repository + ":" + tag
		if _, _, err := s.registry.Push(ctx, ref, t); err != nil {
			return err
		}
		j.result(ref + "@" + digest.String())
	}
	return nil
}

// result prints a line on stdout, whole, also when several targets end at the same time.
func (j *job) result(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	fmt.Fprintln(j.app.stdout, line)
}

func (j *job) printRecipe(r *recipe.Recipe) error {
	b, err := json.MarshalIndent(r.Public(), "", "  ")
	if err != nil {
		return err
	}
	j.result(string(b))
	return nil
}
