package images

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/rootfs"
)

// unwanted says whether a packaged file has no use in a driver container. Copyright files and licences stay.
func unwanted(p string) bool {
	for _, dir := range []string{"usr/share/man/", "usr/share/info/", "usr/share/lintian/", "usr/share/locale/", "usr/share/bug/", "usr/share/doc-base/", "usr/share/gcc/python/", "usr/share/gdb/"} {
		if strings.HasPrefix(p, dir) {
			return true
		}
	}
	return strings.HasPrefix(p, "usr/share/doc/") && path.Base(p) != "copyright"
}

// unpackAll downloads packages and reads them into the spool, several at a time; results in the order of pkgs.
func (b *Builder) unpackAll(ctx context.Context, pkgs []distros.Package, by packageReader, spool *rootfs.Spool, step *Step) ([]unpacked, error) {
	out := make([]unpacked, len(pkgs))
	eg, ctx := errgroup.WithContext(ctx)
	eg.SetLimit(b.jobs())
	unpacking := semaphore.NewWeighted(int64(min(b.jobs(), runtime.GOMAXPROCS(0)))) // more would cost memory and gain nothing
	for i, p := range pkgs {
		eg.Go(func() error {
			client, err := by.client(p.URL)
			if err != nil {
				return fmt.Errorf("package %s: %w", p.Name, err)
			}
			file, _, err := client.Get(ctx, packageFile(p), func(done, total int64) { step.Progress(p.Name+" "+p.Version, done, total) })
			if err != nil {
				return fmt.Errorf("package %s: %w", p.Name, err)
			}
			if err := unpacking.Acquire(ctx, 1); err != nil {
				return err
			}
			defer unpacking.Release(1)
			if out[i], err = by.unpack(ctx, file, p, spool); err != nil {
				return fmt.Errorf("package %s %s: %w", p.Name, p.Version, err)
			}
			return nil
		})
	}
	return out, eg.Wait()
}

// packagesLayer holds what the image has beside the driver: packages, and what makes more of them to be had on the node.
func (b *Builder) packagesLayer(ctx context.Context, r *Recipe, base v1.Image) (v1.Layer, error) {
	var links map[string]string
	if r.Toolchain {
		links = r.Links
	}
	return b.installedLayer(ctx, r, base, "packages", r.Packages, links, r.Public().Repositories)
}

// installedLayer is packages on the base, recorded as installed, and repositories that are added to the base's.
func (b *Builder) installedLayer(ctx context.Context, r *Recipe, base v1.Image, name string, pkgs []distros.Package, links map[string]string, repositories []matrix.Repository) (v1.Layer, error) {
	inputs := []any{r.Base.Digest, pins(pkgs), links, r.Compression, r.Epoch}
	if len(repositories) > 0 {
		inputs = append(inputs, repositories)
	}
	k, err := key("packages", inputs...)
	if err != nil {
		return nil, err
	}
	return b.unpackedLayer(ctx, r, base, name, k, pkgs, func(f family, tree, lower *rootfs.Tree, all []unpacked) error {
		if err := place(tree, all); err != nil {
			return err
		}
		if err := f.record(tree, lower, all, r.time()); err != nil {
			return err
		}
		if len(repositories) > 0 {
			if err := f.configure(tree, repositories); err != nil {
				return err
			}
		}
		return addLinks(tree, links)
	})
}

// unpackedLayer gives packages to install, which lays them over the base.
func (b *Builder) unpackedLayer(ctx context.Context, r *Recipe, base v1.Image, name, key string, pkgs []distros.Package, install func(f family, tree, lower *rootfs.Tree, all []unpacked) error) (v1.Layer, error) {
	return b.layer(ctx, r, name, key, func(ctx context.Context, spool *rootfs.Spool, step *Step) (*rootfs.Tree, error) {
		lower, err := b.baseTree(ctx, base, r.Base.Digest, spool, step)
		if err != nil {
			return nil, err
		}
		f, err := r.family()
		if err != nil {
			return nil, err
		}
		tree := rootfs.New(spool, lower)
		if len(pkgs) == 0 {
			return tree, install(f, tree, lower, nil)
		}
		by, err := f.reader(b, r, lower)
		if err != nil {
			return nil, err
		}
		all, err := b.unpackAll(ctx, pkgs, by, spool, step)
		if err != nil {
			return nil, err
		}
		return tree, install(f, tree, lower, all)
	})
}

// place lays packages over a base as their package manager would without running their scripts, and notes the paths of each.
func place(tree *rootfs.Tree, all []unpacked) error {
	for i, u := range all {
		for _, e := range u.tree.All() {
			if unwanted(e.Path) {
				continue
			}
			all[i].list = append(all[i].list, "/"+e.Path)
			if err := install(tree, e); err != nil {
				return fmt.Errorf("install %s: %w", u.name, err)
			}
		}
	}
	return nil
}

// install puts one packaged entry into the tree, through the links of the base.
func install(tree *rootfs.Tree, e *rootfs.Entry) error {
	switch e.Kind {
	case rootfs.Dir:
		return tree.AddDir(e.Path, e.Mode)
	case rootfs.Link:
		return tree.AddLink(e.Path, e.Target)
	default:
		return tree.Move(e, e.Path)
	}
}

// removeOld deletes the files of a replaced version that no new package put there again.
func removeOld(tree, lower *rootfs.Tree, list []string) error {
	for _, name := range list {
		p, err := rootfs.Clean(strings.TrimPrefix(strings.TrimSpace(name), "/"))
		if err != nil || p == "." {
			continue
		}
		dir, err := tree.Resolve(path.Dir(p))
		if err != nil {
			return err
		}
		p = path.Join(dir, path.Base(p))
		if _, ok := lower.Lstat(p); !ok || tree.Has(p) {
			continue
		}
		if e, err := lower.Stat(p); err == nil && e.Kind == rootfs.Dir {
			continue // also /lib, which packages list as a folder and which is a link on a merged-/usr base
		}
		if err := tree.Delete(p); err != nil {
			return err
		}
	}
	return nil
}

// addLinks makes the links that are not there yet.
func addLinks(tree *rootfs.Tree, links map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(links)) {
		if !tree.Exists(name) {
			if err := tree.AddLink(name, links[name]); err != nil {
				return err
			}
		}
	}
	return nil
}

func addBytes(tree *rootfs.Tree, name string, mode fs.FileMode, data []byte) error {
	return tree.AddFile(name, mode, int64(len(data)), bytes.NewReader(data))
}
