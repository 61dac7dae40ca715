package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/images/recipe"
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
	lock        string
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
	f.StringVar(&o.mirror, "mirror", "", "package mirror instead of the addresses in the base's configuration: URL or PREFIX=URL")
	f.StringVar(&o.profile, "profile", "", "full: all user-mode libraries but X; compute: what CUDA, NVML and video need (default: the matrix's)")
	f.StringVar(&o.compression, "compression", "gzip", "of the layers: gzip or zstd")
	f.StringVar(&o.entrypoint, "entrypoint", "", "driver-entrypoint to put in (default: the one beside this program)")
	f.BoolVar(&o.dryRun, "dry-run", false, "print the recipes as JSON and build nothing")
	lockFlag(f, &o.lock)
	o.ahead.flags(f)
	o.builders.flags(f)
	o.signer.flags(f)
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
	if j.lock, err = openLock(&j.options, targets...); err != nil {
		return err
	}
	if err := j.named(); err != nil {
		return err
	}
	return a.with(ctx, m.Defaults.Mirrors, o.entrypoint, func(ctx context.Context, s *session) error {
		s.builder.Signer = signer
		closeRunner := j.options.builders.use(s.builder, func(line string) { _ = s.display.stepFor("builder", line).End(false, nil) })
		return errors.Join(j.run(ctx, s), closeRunner())
	})
}

func (o *buildOptions) planOptions(epoch string) (p recipe.Options, err error) {
	if p.Profile, err = recipe.ParseProfile(o.profile); err != nil {
		return p, err
	}
	if p.Compression, err = recipe.ParseCompression(o.compression); err != nil {
		return p, err
	}
	if epoch != "" {
		if p.Epoch, err = strconv.ParseInt(epoch, 10, 64); err != nil || p.Epoch < 0 {
			return p, fmt.Errorf("SOURCE_DATE_EPOCH %q is not a number of seconds", epoch)
		}
	}
	p.Base, p.Mirror = o.base, o.mirror
	if o.source != "" {
		p.Source, err = addressOf("--source", o.source)
	}
	return p, err
}
