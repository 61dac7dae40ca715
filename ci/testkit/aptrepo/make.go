package aptrepo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/driver-container/driver-container/ci/testkit/cache"
	"github.com/driver-container/driver-container/ci/testkit/gpg"
	"github.com/driver-container/driver-container/ci/testkit/rpmrepo"
)

// recipe is part of a result's key in the cache: increase it when the same inputs give another result.
const recipe = "1"

// Options say what to make.
type Options struct {
	// Debian is the folder of an OCI layout with a base of Debian 12, as ci/base makes it.
	Debian string
	// Kernel becomes the headers of Newest. Nil: Newest is as empty as the other kernels.
	Kernel *rpmrepo.Kernel
}

// Repository is the result of Make. Its folders are shared and never written to.
type Repository struct {
	// Dir has www/HOST/ubuntu, the files that are served, and base, an OCI layout.
	Dir string
}

// Base returns the base image, as driver-build's --base takes it.
func (r *Repository) Base() string { return "oci:" + filepath.Join(r.Dir, "base") }

// WWW returns the folder that is served, with one folder for each host.
func (r *Repository) WWW() string { return filepath.Join(r.Dir, "www") }

// Make makes the repositories and the base, unless the cache has them. Processes that want the same result
// wait for each other.
func Make(ctx context.Context, o Options) (*Repository, error) {
	image, err := OpenBase(o.Debian)
	if err != nil {
		return nil, fmt.Errorf("make Ubuntu's repositories from the base in %s: %w", o.Debian, err)
	}
	digest, err := image.Digest()
	if err != nil {
		return nil, err
	}
	kernel := ""
	if o.Kernel != nil {
		kernel = o.Kernel.Release
	}
	key, err := cache.Key([]string{recipe, digest.String(), kernel, fmt.Sprint(renames(), wanted(), kernels(), osRelease, sources)})
	if err != nil {
		return nil, err
	}
	folder, err := cache.Dir("aptrepo", "")
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(folder, "ubuntu24.04-"+key)
	err = cache.Once(dir, func(partial string) error {
		return errors.Join(cache.Prune(filepath.Join(folder, "[^.]*"), 0, rpmrepo.UnusedFor), fill(ctx, o, partial))
	})
	if err != nil {
		return nil, fmt.Errorf("make Ubuntu's repositories: %w", err)
	}
	return &Repository{Dir: dir}, nil
}

// fill makes the result.
func fill(ctx context.Context, o Options, dir string) error {
	image, err := OpenBase(o.Debian)
	if err != nil {
		return err
	}
	status, err := statusOf(image)
	if err != nil {
		return err
	}
	key, err := gpg.New(ctx, "rsa3072")
	if err != nil {
		return err
	}
	defer key.Close(ctx)
	work, pool := filepath.Join(dir, "work"), filepath.Join(dir, "pool")
	folders := []string{work}
	for _, names := range suites() {
		for _, suite := range names {
			folders = append(folders, filepath.Join(pool, suite))
		}
	}
	for _, folder := range folders {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(work, "status"), status, 0o644); err != nil {
		return err
	}
	debs, err := download(ctx, filepath.Join(work, "status"), work)
	if err != nil {
		return err
	}
	for _, deb := range debs {
		if err := adopt(ctx, deb, filepath.Join(pool, release)); err != nil {
			return fmt.Errorf("adopt %s: %w", filepath.Base(deb), err)
		}
	}
	if err := buildKernels(ctx, o.Kernel, pool, work); err != nil {
		return err
	}
	if err := publish(ctx, key, pool, filepath.Join(dir, "www")); err != nil {
		return err
	}
	public, err := key.Binary(ctx)
	if err != nil {
		return err
	}
	return errors.Join(WriteBase(image, ubuntu(string(public)), filepath.Join(dir, "base"), "ubuntu24.04"), os.RemoveAll(work), os.RemoveAll(pool))
}
