package rpmrepo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/cache"
	"github.com/driver-container/driver-container/ci/testkit/gpg"
)

// recipe is part of a result's key in the cache: increase it when the same inputs give another result.
const recipe = "2"

// Options say what to make.
type Options struct {
	// System is one of Systems: "rocky9".
	System string
	// Kernel is packaged as kernel-devel with all of its headers. Nil: kernels have a Makefile only.
	Kernel *Kernel
}

// Repository is the result of Make. Its folders are shared and never written to.
type Repository struct {
	// System is the system of the repositories.
	System string
	// Fingerprint is that of the signing key, in capital hex; Key is the key, armoured.
	Fingerprint string
	Key         []byte
	// Dir has www/HOST/PATH, the files that are served, and base, an OCI layout.
	Dir string
	// Root is a folder with the base's files. Its database is always in SQLite's format, which Debian's programs
	// can write.
	Root string
	// Release is the newest kernel's release.
	Release string
}

// Base returns the system's base image, as driver-build's --base takes it.
func (r *Repository) Base() string { return "oci:" + filepath.Join(r.Dir, "base") }

// WWW returns the folder that is served, with one folder for each host.
func (r *Repository) WWW() string { return filepath.Join(r.Dir, "www") }

// Handler serves the repositories to clients that use it as their proxy, under the addresses in the base's
// files.
func (r *Repository) Handler() http.Handler { return Serve(r.WWW()) }

// Serve serves the folders of a directory, each as the host of its name, to clients that use it as their
// proxy.
func Serve(www string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		host := req.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		if host == "" || strings.ContainsAny(host, `/\`) || strings.HasPrefix(host, ".") {
			http.Error(w, "no such host here", http.StatusNotFound)
			return
		}
		http.FileServer(http.Dir(filepath.Join(www, host))).ServeHTTP(w, req)
	})
}

// Make makes the repositories and the base of a system, unless the cache has them. Processes that want the
// same result wait for each other.
func Make(ctx context.Context, o Options) (*Repository, error) {
	sys, err := lookup(o.System)
	if err != nil {
		return nil, err
	}
	folder, err := cache.Dir("rpmrepo", "")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, s := range catalogue() {
		names = append(names, s.debs...)
	}
	debs, err := candidates(ctx, names)
	if err != nil {
		return nil, err
	}
	key, err := cache.Key(append(files(debs), recipe, fmt.Sprint(sys), fmt.Sprint(catalogue(), unused), o.release()))
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(folder, sys.id+"-"+key)
	err = cache.Once(dir, func(partial string) error {
		return errors.Join(cache.Prune(filepath.Join(folder, "[^.]*"), 0, UnusedFor), fill(ctx, o, sys, debs, folder, partial))
	})
	if err != nil {
		return nil, fmt.Errorf("make rpm repositories for %s: %w", sys.id, err)
	}
	return open(o, sys, dir)
}

func (o Options) release() string {
	if o.Kernel == nil {
		return ""
	}
	return o.Kernel.Release
}

func files(debs []deb) []string {
	var all []string
	for _, d := range debs {
		all = append(all, d.file)
	}
	return all
}

// UnusedFor is the time after which results that were not used are removed: mostly those of other versions of
// Debian's packages.
const UnusedFor = 7 * 24 * time.Hour

// fill makes the result.
func fill(ctx context.Context, o Options, sys system, debs []deb, folder, dir string) error {
	all := catalogue()
	trees, err := contents(ctx, folder, all, debs)
	if err != nil {
		return err
	}
	key, err := gpg.New(ctx, "rsa3072")
	if err != nil {
		return err
	}
	defer key.Close(ctx)
	packages := filepath.Join(dir, "packages")
	if err := os.MkdirAll(packages, 0o755); err != nil {
		return err
	}
	if err := buildAll(ctx, o, sys, all, debs, key.Public, trees, packages); err != nil {
		return err
	}
	for _, part := range []part{core, application} {
		files, err := filepath.Glob(filepath.Join(packages, fmt.Sprint("part-", part), "*.rpm"))
		if err != nil || len(files) == 0 {
			return fmt.Errorf("no packages to sign in part %d of %s", part, packages)
		}
		var flags []string
		if sys.oldSigns {
			flags = append(flags, "--rpmv3")
		}
		if err := key.Packages(ctx, files, flags...); err != nil {
			return err
		}
	}
	if err := publish(ctx, sys, key, packages, filepath.Join(dir, "www"), firstRevision); err != nil {
		return err
	}
	if err := makeBase(ctx, sys, all, key.Public, packages, dir); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, "key.asc"), key.Public, 0o644), os.WriteFile(filepath.Join(dir, "fingerprint"), []byte(key.Fingerprint), 0o644),
		os.RemoveAll(packages))
}

// contents returns the folder of the unpacked Debian packages, which all systems share.
func contents(ctx context.Context, folder string, all []software, debs []deb) (string, error) {
	key, err := cache.Key(append(files(debs), recipe, fmt.Sprint(all, unused)))
	if err != nil {
		return "", err
	}
	dir := filepath.Join(folder, "contents-"+key)
	return dir, cache.Once(dir, func(partial string) error { return unpack(ctx, all, debs, partial) })
}

// buildAll packs everything into folders named after the parts.
func buildAll(ctx context.Context, o Options, sys system, all []software, debs []deb, key []byte, trees, packages string) error {
	if err := buildCatalogue(ctx, sys, all, debs, trees, packages); err != nil {
		return err
	}
	if err := buildSystem(ctx, sys, key, packages); err != nil {
		return err
	}
	for _, r := range sys.repos {
		if r.modular {
			for _, d := range debs {
				if d.name == "perl-base" {
					if err := buildModules(ctx, sys, d, packages); err != nil {
						return err
					}
				}
			}
		}
	}
	return buildKernels(ctx, sys, o.Kernel, packages)
}

const firstRevision = 1700000000

// open describes the result in a folder.
func open(o Options, sys system, dir string) (*Repository, error) {
	key, err := os.ReadFile(filepath.Join(dir, "key.asc"))
	if err != nil {
		return nil, err
	}
	fingerprint, err := os.ReadFile(filepath.Join(dir, "fingerprint"))
	if err != nil {
		return nil, err
	}
	release := sys.uname(stubVersion, sys.build(strconv.Itoa(stubNumber)), "")
	if o.Kernel != nil {
		if release, err = o.Kernel.ReleaseIn(sys.id); err != nil {
			return nil, err
		}
	}
	return &Repository{System: sys.id, Fingerprint: string(fingerprint), Key: key, Dir: dir, Root: filepath.Join(dir, "root"), Release: release}, nil
}
