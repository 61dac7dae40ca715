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
}

// group is the targets that share a tag: one image, or an index of one image an architecture.
type group struct {
	tag     string
	targets []matrix.Target
}

func grouped(targets []matrix.Target) []group {
	var groups []group
	at := map[string]int{}
	for _, t := range targets {
		i, ok := at[t.Tag()]
		if !ok {
			i = len(groups)
			at[t.Tag()] = i
			groups = append(groups, group{tag: t.Tag()})
		}
		groups[i].targets = append(groups[i].targets, t)
	}
	return groups
}

func (a *app) build(ctx context.Context, o buildOptions) error {
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
	j := &job{app: a, options: o, groups: grouped(targets)}
	if err := j.check(m.Defaults); err != nil {
		return err
	}
	return a.with(ctx, m.Defaults.Mirrors, o.entrypoint, j.run)
}

// job is one call of the main command, its flags checked.
type job struct {
	app     *app
	options buildOptions
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
	for _, out := range j.outputs {
		if err := out.check(j.groups, j.plan.Compression == images.Zstd); err != nil {
			return err
		}
	}
	if o.source != "" && len(j.groups) > 1 {
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

// run builds all groups. One that fails does not stop the others.
func (j *job) run(ctx context.Context, s *session) error {
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
	built := make([]v1.Image, len(g.targets))
	eg, ectx := errgroup.WithContext(ctx)
	for i, t := range g.targets {
		eg.Go(func() error {
			r, err := s.builder.Plan(ectx, t, j.plan)
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
	if err := j.publish(ctx, s, g.tag, artifact); err != nil {
		return fmt.Errorf("%s: %w", g.tag, err)
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
