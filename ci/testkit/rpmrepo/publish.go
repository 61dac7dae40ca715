package rpmrepo

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/ci/testkit/gpg"
)

// publish makes the system's repositories from signed packages, in www/HOST/PATH. revision orders states that
// are published one after the other: createrepo_c takes seconds since 1970.
func publish(ctx context.Context, sys system, key *gpg.Key, packages, www string, revision int) error {
	for _, r := range sys.repos {
		if r.url == "" {
			continue
		}
		dir, err := folderOf(www, r.url)
		if err != nil {
			return err
		}
		for _, part := range r.parts {
			to := filepath.Join(dir, "Packages")
			if err := os.MkdirAll(to, 0o755); err != nil {
				return err
			}
			files, err := filepath.Glob(filepath.Join(packages, fmt.Sprint("part-", part), "*.rpm"))
			if err != nil {
				return err
			}
			for _, file := range files {
				if err := os.Link(file, filepath.Join(to, filepath.Base(file))); err != nil {
					return err
				}
			}
		}
		if err := r.index(ctx, sys, key, packages, dir, revision); err != nil {
			return fmt.Errorf("publish %s of %s: %w", r.id, sys.id, err)
		}
		if r.metalink != "" {
			text, err := r.metalinkText(dir)
			if err != nil {
				return err
			}
			list, err := folderOf(www, r.metalink)
			if err != nil {
				return err
			}
			if err := WriteFile(list, text); err != nil {
				return err
			}
		}
		if r.mirrors != "" {
			list, err := folderOf(www, r.mirrors)
			if err != nil {
				return err
			}
			if err := WriteFile(list, r.url+"/\n"); err != nil {
				return err
			}
		}
	}
	return nil
}

// index creates or updates repodata.
func (r repo) index(ctx context.Context, sys system, key *gpg.Key, packages, dir string, revision int) error {
	args := slices.Concat(sys.createrepo, []string{"--quiet", "--revision", fmt.Sprint(revision), "--set-timestamp-to-revision", dir})
	if _, err := Run(ctx, "", "createrepo_c", args...); err != nil {
		return err
	}
	repodata := filepath.Join(dir, "repodata")
	if r.modular {
		if _, err := Run(ctx, "", "modifyrepo_c", "--mdtype=modules", "--compress-type=gz", filepath.Join(packages, modulesFile), repodata); err != nil {
			return err
		}
	}
	if !r.signed {
		return nil
	}
	if err := key.Detached(ctx, filepath.Join(repodata, "repomd.xml")); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(repodata, "repomd.xml.key"), key.Public, 0o644)
}

// folderOf returns the folder with the answers for a URL.
func folderOf(www, address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	return filepath.Join(www, u.Host, filepath.FromSlash(strings.TrimSuffix(u.Path, "/"))), nil
}
