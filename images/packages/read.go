package packages

import (
	"context"
	"fmt"
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
	// unpack reads a package from a downloaded file, and verifies what its digest does not cover.
	unpack func(ctx context.Context, file string, p distros.Package, spool *rootfs.Spool) (Unpacked, error)
}

// NewReader makes a reader by the configuration of a base, whose facts are given.
func NewReader(env Env, s Sources, base *rootfs.Tree) (Reader, error) {
	m, err := managerOf(s.Distro)
	if err != nil {
		return Reader{}, err
	}
	return m.reader(env, s, base)
}

// Unpack downloads packages and reads them into the spool, several at a time; results in the order of pkgs.
func (r Reader) Unpack(ctx context.Context, pkgs []distros.Package, spool *rootfs.Spool, step *progress.Step) ([]Unpacked, error) {
	out := make([]Unpacked, len(pkgs))
	eg, ctx := errgroup.WithContext(ctx)
	eg.SetLimit(r.env.AtOnce())
	unpacking := semaphore.NewWeighted(int64(min(r.env.AtOnce(), runtime.GOMAXPROCS(0)))) // more would cost memory and gain nothing
	for i, p := range pkgs {
		eg.Go(func() error {
			client, err := r.Client(p.URL)
			if err != nil {
				return fmt.Errorf("package %s: %w", p.Name, err)
			}
			file, _, err := client.Get(ctx, recipe.PackageFile(p), func(done, total int64) { step.Progress(p.Name+" "+p.Version, done, total) })
			if err != nil {
				return fmt.Errorf("package %s: %w", p.Name, err)
			}
			if err := unpacking.Acquire(ctx, 1); err != nil {
				return err
			}
			defer unpacking.Release(1)
			if out[i], err = r.unpack(ctx, file, p, spool); err != nil {
				return fmt.Errorf("package %s %s: %w", p.Name, p.Version, err)
			}
			return nil
		})
	}
	return out, eg.Wait()
}
