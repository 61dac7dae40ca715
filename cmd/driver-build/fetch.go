package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/images/recipe"
)

func newFetchCmd(a *app) *cobra.Command {
	var o buildOptions
	var only string
	cmd := &cobra.Command{
		Use: "fetch --os SYSTEM --driver VERSION", Short: "Download everything that targets need into the cache", Args: noArgs,
		Long: "Download base images, packages and drivers of targets into the cache and verify them, so that a build can follow with\n" +
			"--offline. Prints one line a file: sha256:DIGEST, the path in the cache and the address it came from.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := o.selection.load()
			if err != nil {
				return err
			}
			targets, err := o.selection.targets(m)
			if err != nil {
				return err
			}
			if only != "" && only != "base" {
				return usageError{fmt.Errorf("--only %q is not known: use base", only)}
			}
			j := &job{app: a, options: o, targets: targets}
			j.options.dryRun = true
			if err := j.check(m.Defaults); err != nil {
				return err
			}
			if j.lock, err = openLock(&j.options, targets...); err != nil {
				return err
			}
			if err := j.named(); err != nil {
				return err
			}
			return a.with(cmd.Context(), m.Defaults.Mirrors, o.entrypoint, func(ctx context.Context, s *session) error {
				if only == "base" {
					return j.fetchBases(ctx, s)
				}
				if err := j.resolve(ctx, s); err != nil {
					return err
				}
				return j.fetch(ctx, s)
			})
		},
	}
	o.selection.flags(cmd.Flags())
	f := cmd.Flags()
	f.StringVar(&o.base, "base", "", "base image instead of the row's")
	f.StringVar(&o.source, "source", "", "URL or FILE of the driver's .run archive; the row's checksum still applies")
	f.StringVar(&o.mirror, "mirror", "", "package mirror instead of the addresses in the base's configuration")
	lockFlag(f, &o.lock)
	o.ahead.flags(f)
	f.StringVar(&only, "only", "", "base: nothing but the base images")
	o.profile, o.compression = string(recipe.Full), string(recipe.Gzip)
	return cmd
}

// fetchBases brings the base images alone.
func (j *job) fetchBases(ctx context.Context, s *session) error {
	if err := j.resolve(ctx, s); err != nil {
		return err
	}
	printed := map[string]bool{}
	for _, g := range j.groups {
		for _, it := range g.items {
			base, err := s.registry.Base(ctx, it.base(), it.target.Arch)
			if err != nil {
				return fmt.Errorf("base image of %s: %w", it.target.System.ID, j.explain(ctx, s, it, err))
			}
			if line := fmt.Sprintf("%s %s", base.Digest, base.Name); !printed[line] {
				printed[line] = true
				j.result(line)
			}
		}
	}
	return nil
}

// fetch brings everything that the images need. A file that several of them need is printed once.
func (j *job) fetch(ctx context.Context, s *session) error {
	printed := map[string]bool{}
	once := func(key, line string) {
		if !printed[key] {
			printed[key] = true
			j.result(line)
		}
	}
	for _, g := range j.groups {
		for _, it := range g.items {
			r, err := it.recipe(ctx, s.builder)
			if err != nil {
				return err
			}
			if it.pins != nil { // a plan has read it
				if _, err := s.registry.Base(ctx, r.Base.Location, it.target.Arch); err != nil {
					return fmt.Errorf("base image of %s: %w", r.Target(), j.explain(ctx, s, it, err))
				}
			}
			once(r.Base.Digest, r.Base.Digest+" "+r.Base.Name)
			if err := s.builder.Download(ctx, r); err != nil {
				return j.explain(ctx, s, it, err)
			}
			for _, f := range r.Public().Files() {
				kind, digest := "sha256:", f.SHA256
				if digest == "" { // of a repository that knows no other
					kind, digest = "sha512:", f.SHA512
				}
				once(digest, fmt.Sprintf("%s%s %s %s", kind, digest, s.builder.Store.Path(digest), f.URL))
			}
		}
	}
	return nil
}
