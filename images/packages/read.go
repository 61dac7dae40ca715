package packages

import (
	"context"
	"fmt"
	"io"
	"runtime"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// Reader downloads packages and takes them apart.
type Reader struct {
	env Env
	// Client downloads from a URL: repositories can ask for certificates and credentials.
	Client func(url string) (*fetch.Client, error)
	// unpack reads a package into an empty tree, and verifies what its digest does not cover.
	unpack func(ctx context.Context, r io.Reader, p distros.Package, u *Unpacked) error
}

// NewReader makes a reader by the configuration of a base, whose facts are given.
func NewReader(env Env, s Sources, base *rootfs.Tree) (Reader, error) {
	return managerOf(s.Distro).reader(env, s, base)
}

// Unpack downloads packages and reads them into the spool, several at a time; results in the order
// of pkgs.
func (r Reader) Unpack(
	ctx context.Context,
	pkgs []distros.Package,
	spool *rootfs.Spool,
	step *progress.Step,
) ([]Unpacked, error) {
	out := make([]Unpacked, len(pkgs))
	eg, ctx := errgroup.WithContext(ctx)
	eg.SetLimit(r.env.AtOnce())
	// more would cost memory and gain nothing
	unpacking := semaphore.NewWeighted(int64(min(r.env.AtOnce(), runtime.GOMAXPROCS(0))))
	for i, p := range pkgs {
		out[i] = Unpacked{Name: p.Name, Version: p.Version, Tree: rootfs.New(spool, nil)}
		eg.Go(func() error {
			err := r.download(ctx, p, step, func(f io.Reader) error {
				if err := unpacking.Acquire(ctx, 1); err != nil {
					return err
				}
				defer unpacking.Release(1)
				return r.unpack(ctx, rootfs.Cancellable(ctx, f), p, &out[i])
			})
			if err != nil {
				return fmt.Errorf("package %s %s: %w", p.Name, p.Version, err)
			}
			return nil
		})
	}
	return out, eg.Wait()
}

// download gives a package to use.
func (r Reader) download(
	ctx context.Context,
	p distros.Package,
	step *progress.Step,
	use func(io.Reader) error,
) error {
	client, err := r.Client(p.URL)
	if err != nil {
		return err
	}
	file, _, err := client.Get(ctx, recipe.PackageFile(p), step.File(p.Name+" "+p.Version))
	if err != nil {
		return err
	}
	return fetch.Pinned(ctx, file, recipe.PackageFile(p), use)
}
