package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/distros/rpm"
)

const cacheLong = `Show what takes room in the cache: layers and their outlines, downloads, repository indexes, facts of bases, records, and the
folders beside them. Images are no part of it.`

const cachePruneLong = `Remove from the cache what no command has used for some days. It is safe while builds run; what is needed again is downloaded or
built again. The newest revision seen of each rpm repository stays, so that a rollback is noticed.`

func newCacheCmd(a *session.App) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "cache", Short: "Show what takes room in the cache", Long: cacheLong, Args: cobra.NoArgs,
		Example: "  driver-build cache\n  driver-build cache -o json",
		RunE:    func(*cobra.Command, []string) error { return showCache(a, format) },
	}
	session.Format(cmd.Flags(), &format, "table or json")
	cmd.AddCommand(newCachePruneCmd(a))
	return cmd
}

func showCache(a *session.App, format string) error {
	store, err := openCache(a)
	if err != nil {
		return err
	}
	all, err := store.Kinds()
	if err != nil {
		return err
	}
	return session.ShowList(a, format, all, []string{"KIND", "FILES", "SIZE"}, func(k fetch.Kind) []string {
		return []string{k.Name, strconv.Itoa(k.Files), fmt.Sprintf("%.1f MiB", float64(k.Bytes)/(1<<20))}
	})
}

func newCachePruneCmd(a *session.App) *cobra.Command {
	days := 30
	cmd := &cobra.Command{
		Use: "prune", Short: "Remove what no command has used for some days", Long: cachePruneLong, Args: cobra.NoArgs,
		Example: "  driver-build cache prune --keep-days 14",
		RunE: func(*cobra.Command, []string) error {
			if days < 1 {
				return session.Usagef("--keep-days %d: give one day or more, because running builds count on what they have seen", days)
			}
			store, err := openCache(a)
			if err != nil {
				return err
			}
			gone, err := store.Prune(time.Duration(days)*24*time.Hour, rpm.RevisionRecord)
			if err != nil {
				return fmt.Errorf("prune the cache: %w", err)
			}
			a.Result(fmt.Sprintf("%d files removed, %.1f MiB", gone.Files, float64(gone.Bytes)/(1<<20)))
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
