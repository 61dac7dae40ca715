package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/registry"
)

// buildOptions are the flags of the main command.
type buildOptions struct {
	selection   selection
	outputs     []string
	push        bool
	repository  string
	base        string
	source      string
	mirror      string
	profile     string
	compression string
	entrypoint  string
	dryRun      bool
	ahead       precompile
	builders    builders
	signer      signerFlags
}

func (o *buildOptions) flags(f *pflag.FlagSet) {
	f.StringArrayVarP(&o.outputs, "output", "o", nil, "oci:DIR, oci-archive:FILE or docker-archive:FILE (repeatable; default oci:dist, unless --push)")
	f.BoolVar(&o.push, "push", false, "push to the repository, tagged <driver>-<os>")
	f.StringVar(&o.repository, "repository", "", "REGISTRY/PATH to push to (default: the matrix's)")
	f.StringVar(&o.base, "base", "", "base image instead of the row's: REF, oci:DIR[:TAG], oci-archive:FILE or docker-archive:FILE")
	f.StringVar(&o.source, "source", "", "URL or FILE of the driver's .run archive; the row's checksum still applies")
	f.StringVar(&o.mirror, "mirror", "", "package mirror instead of the addresses in the base's apt configuration: URL or PREFIX=URL")
	f.StringVar(&o.profile, "profile", "", "full: all user-mode libraries but X; compute: what CUDA, NVML and video need (default: the matrix's)")
	f.StringVar(&o.compression, "compression", "gzip", "of the layers: gzip or zstd")
	f.StringVar(&o.entrypoint, "entrypoint", "", "driver-entrypoint to put in (default: the one beside this program)")
	f.BoolVar(&o.dryRun, "dry-run", false, "print the recipes as JSON and build nothing")
	o.ahead.flags(f)
	o.builders.flags(f)
	o.signer.flags(f)
}

// item is one image to build.
type item struct {
	target matrix.Target
	plan   images.PlanOptions
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
		tag, aliases := it.target.Tag(), []string(nil)
		if len(it.plan.Kernels) > 0 && !it.plan.Together {
			tag, aliases = images.KernelTags(it.target, it.plan.Kernels[0])
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

func (a *app) build(ctx context.Context, o buildOptions) (err error) {
	m, err := o.selection.load()
	if err != nil {
		return err
	}
	targets, err := o.selection.targets(m)
	if err != nil {
		return err
	}
	for _, t := range targets {
		for _, rule := range t.Overridden {
			fmt.Fprintf(a.stderr, "warning: %s %s: built although %s\n", t.Tag(), t.Arch, rule)
		}
	}
	j := &job{app: a, options: o, targets: targets}
	if err := j.check(m.Defaults); err != nil {
		return err
	}
	signer, closer, err := o.signer.load(a.getenv)
	if err != nil {
		return usageError{err}
	}
	defer func() { err = errors.Join(err, closer.Close()) }()
	if signer != nil {
		j.plan.Signer = signer.Certificate
	}
	return a.with(ctx, m.Defaults.Mirrors, o.entrypoint, func(ctx context.Context, s *session) error {
		s.builder.Signer = signer
		closeRunner := j.options.builders.use(s.builder, func(line string) { _ = s.display.stepFor("builder", line).End(false, nil) })
		return errors.Join(j.run(ctx, s), closeRunner())
	})
}

// job is one call of the main command, its flags checked.
type job struct {
	app     *app
	options buildOptions
	targets []matrix.Target
	groups  []group
	plan    images.PlanOptions
	outputs []output

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
	if o.ahead.listed() {
		return nil // which images these are the repositories say
	}
	items, err := o.ahead.items(j.targets, j.plan, o.selection, nil)
	if err != nil {
		return err
	}
	return j.group(items)
}

// group sorts images by tag and refuses what the outputs cannot hold.
func (j *job) group(items []item) error {
	j.groups = grouped(items)
	for _, out := range j.outputs {
		if err := out.check(j.groups, j.plan.Compression == images.Zstd); err != nil {
			return err
		}
	}
	if j.options.source != "" && len(j.targets) > 1 {
		return usageError{errors.New("--source is one archive: it needs one driver and one architecture")}
	}
	return nil
}

func (o *buildOptions) planOptions(epoch string) (p images.PlanOptions, err error) {
	if p.Profile, err = images.ParseProfile(o.profile); err != nil {
		return p, err
	}
	if p.Compression, err = images.ParseCompression(o.compression); err != nil {
		return p, err
	}
	if epoch != "" {
		if p.Epoch, err = strconv.ParseInt(epoch, 10, 64); err != nil || p.Epoch < 0 {
			return p, fmt.Errorf("SOURCE_DATE_EPOCH %q is not a number of seconds", epoch)
		}
	}
	p.Base, p.Mirror = o.base, o.mirror
	if o.source != "" {
		p.Source, err = sourceURL(o.source)
	}
	return p, err
}

// resolve asks the repositories for the kernels where only they know which are meant.
func (j *job) resolve(ctx context.Context, s *session) error {
	if !j.options.ahead.listed() {
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
			r, err := s.builder.Plan(ectx, it.target, it.plan)
			if err != nil {
				return err
			}
			if j.options.dryRun {
				return j.printRecipe(r)
			}
			built[i], err = s.builder.Build(ectx, r)
			return err
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

func (j *job) printRecipe(r *images.Recipe) error {
	b, err := json.MarshalIndent(r.Public(), "", "  ")
	if err != nil {
		return err
	}
	j.result(string(b))
	return nil
}
