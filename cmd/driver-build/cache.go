package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/distros/rpm"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/programs"
	"github.com/driver-container/driver-container/images/recipe"
)

const cacheLong = `Show what takes room in the cache: layers, downloads, repository indexes, facts of bases, what guests of
rehearsals boot, records, and the folders beside them. Images are no part of it.`

const cachePruneLong = `Remove from the cache what no command has used for some days. It is safe while builds run; what is needed again is downloaded or
built again. The newest revision seen of each rpm repository stays, so that a rollback is noticed.`

func newCacheCmd(a *session.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "cache", Short: "Show what takes room in the cache", Long: cacheLong, Args: cobra.NoArgs,
		Example: "  driver-build cache\n  driver-build cache -o json",
		RunE:    func(*cobra.Command, []string) error { return showCache(a) },
	}
	session.Format(cmd.Flags(), &a.Format, "table", "json")
	cmd.AddCommand(newCachePruneCmd(a))
	return cmd
}

func showCache(a *session.App) error {
	store, err := openCache(a)
	if err != nil {
		return err
	}
	all, err := store.Usage()
	if err != nil {
		return err
	}
	return session.ShowList(a, all, []string{"KIND", "FILES", "SIZE"}, func(k fetch.Usage) []string {
		return []string{
			k.Kind,
			strconv.Itoa(k.Files),
			fmt.Sprintf("%.1f MiB", float64(k.Bytes)/(1<<20)),
		}
	})
}

// maxDays is a hundred years. Nanoseconds, in which times are counted, have no room for three hundred.
const maxDays = 36500

func newCachePruneCmd(a *session.App) *cobra.Command {
	days := 30
	cmd := &cobra.Command{
		Use: "prune", Short: "Remove what no command has used for some days", Long: cachePruneLong, Args: cobra.NoArgs,
		Example: "  driver-build cache prune --keep-days 14",
		RunE: func(*cobra.Command, []string) error {
			if days < 1 || days > maxDays {
				return session.Usagef(
					"--keep-days %d: give 1 to %d days; running builds count on what they have seen",
					days,
					maxDays,
				)
			}
			store, err := openCache(a)
			if err != nil {
				return err
			}
			gone, err := store.Prune(time.Duration(days)*24*time.Hour, rpm.RevisionRecord)
			if err != nil {
				return fmt.Errorf("prune the cache: %w", err)
			}
			a.Result(
				fmt.Sprintf("%d files removed, %.1f MiB", gone.Files, float64(gone.Bytes)/(1<<20)),
			)
			return nil
		},
	}
	cmd.Flags().IntVar(&days, "keep-days", days, "keep what was used in so many days")
	return cmd
}

func openCache(a *session.App) (*fetch.Store, error) {
	dir, err := a.CacheDir()
	if err != nil {
		return nil, err
	}
	return fetch.OpenStore(dir)
}

// fetchFlags are the flags of the command fetch.
type fetchFlags struct {
	request flags.Request
	only    string
}

func newFetchCmd(a *session.App) *cobra.Command {
	var o fetchFlags
	cmd := &cobra.Command{
		Use: "fetch --os SYSTEM --driver VERSION", Short: "Download everything that targets need into the cache", Args: cobra.NoArgs,
		Long: "Download base images, packages and drivers of targets into the cache and verify them, so that a build can follow with\n" +
			"--offline. Prints one line a file: sha256:DIGEST, the path in the cache and the address it came from.",
		Example: "  driver-build fetch --os ubuntu22.04 --driver 580.178.04 --cache /media/cache\n" +
			"  driver-build fetch --os ubuntu22.04 --driver 580.178.04 --kernel latest --only base",
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), a) },
	}
	f := cmd.Flags()
	o.request.Targets.AddTo(f)
	o.request.Sources.AddTo(f)
	o.request.Sources.AddSourceTo(f)
	o.request.Kernels.AddTo(f)
	o.request.Lock.AddTo(f)
	f.StringVar(&o.only, "only", "", "`base`: nothing but the base images")
	return cmd
}

func (o *fetchFlags) run(ctx context.Context, a *session.App) error {
	if o.only != "" && o.only != "base" {
		return session.Usagef("--only %q is not known: use base", o.only)
	}
	m, err := o.request.Targets.Load(a)
	if err != nil {
		return err
	}
	o.request.Profile.Name = string(recipe.Full)
	q, err := o.request.Images(a, m)
	if err != nil {
		return err
	}
	err = o.request.OpenLock(&q)
	if err != nil {
		return err
	}
	find := a.Programs(ctx, nil) // a program that is missing is nothing to download
	if o.only == "" {
		err = programs.Check(find, q.Targets)
		if err != nil {
			return err
		}
	}
	return a.Connect(
		ctx,
		m.Defaults.Mirrors,
		find,
		func(ctx context.Context, s *session.Session) error {
			if o.only == "base" {
				return fetchBases(ctx, a, s, q)
			}
			return fetchAll(ctx, a, s, q)
		},
	)
}

// fetchBases downloads the bases of images.
func fetchBases(ctx context.Context, a *session.App, s *session.Session, q images.Request) error {
	drafts, failed := s.Builder.AllDrafts(ctx, q)
	done := 0
	printed := map[images.Download]bool{}
	for _, d := range drafts {
		base, err := s.Builder.DownloadBase(ctx, d)
		if err != nil {
			failed.Add(d.Recipe.Tag, s.Builder.ExplainLocked(ctx, q, d.Recipe, err))
			continue
		}
		done++
		printDownloads(a, printed, base)
	}
	return failed.Err(done)
}

// fetchAll downloads everything that images are made from.
func fetchAll(ctx context.Context, a *session.App, s *session.Session, q images.Request) error {
	recipes, planErr := s.Builder.Plan(ctx, q)
	printed := map[images.Download]bool{}
	tags := images.ByTag(recipes, func(r *recipe.Recipe) string { return r.Tag })
	return eachTag(ctx, 1, tags, planErr, func(recipes []*recipe.Recipe) error {
		for _, r := range recipes {
			all, err := s.Builder.Download(ctx, r)
			if err != nil {
				return s.Builder.ExplainLocked(ctx, q, r, err)
			}
			printDownloads(a, printed, all...)
		}
		return nil
	})
}

// printDownloads prints a line for each file and image, once.
func printDownloads(a *session.App, printed map[images.Download]bool, all ...images.Download) {
	for _, d := range all {
		if printed[d] {
			continue
		}
		printed[d] = true
		line := d.Digest
		if d.Path != "" {
			line += " " + d.Path
		}
		a.Result(line + " " + d.Name)
	}
}
