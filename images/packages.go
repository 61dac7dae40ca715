package images

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // dpkg's database uses it, for changes made by accident
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/driver-container/driver-container/distros/apt"
	"github.com/driver-container/driver-container/distros/dpkg"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/rootfs"
)

const (
	dpkgStatus = "var/lib/dpkg/status"
	dpkgInfo   = "var/lib/dpkg/info/"
)

// infoFiles are the control files that dpkg keeps of an installed package and that describe it. Scripts are left out: they
// have not been run, and would act on a system that is none.
var infoFiles = []string{"md5sums", "conffiles", "shlibs", "symbols", "triggers"}

// unwanted says whether a packaged file has no use in a driver container. Copyright files stay.
func unwanted(p string) bool {
	for _, dir := range []string{"usr/share/man/", "usr/share/info/", "usr/share/lintian/", "usr/share/locale/", "usr/share/bug/", "usr/share/doc-base/", "usr/share/gcc/python/", "usr/share/gdb/"} {
		if strings.HasPrefix(p, dir) {
			return true
		}
	}
	return strings.HasPrefix(p, "usr/share/doc/") && path.Base(p) != "copyright"
}

// unpacked is one .deb: its control data and its files as they are in the archive.
type unpacked struct {
	deb  *dpkg.Deb
	tree *rootfs.Tree
}

// unpackDebs downloads packages and reads them into the spool, several at a time; results in the order of pkgs.
func (b *Builder) unpackDebs(ctx context.Context, pkgs []apt.Package, spool *rootfs.Spool, step *Step) ([]unpacked, error) {
	out := make([]unpacked, len(pkgs))
	eg, ctx := errgroup.WithContext(ctx)
	eg.SetLimit(b.jobs())
	unpacking := semaphore.NewWeighted(int64(min(b.jobs(), runtime.GOMAXPROCS(0)))) // more would cost memory and gain nothing
	for i, p := range pkgs {
		eg.Go(func() (err error) {
			file, _, err := b.Fetch.Get(ctx, fetch.File{URL: p.URL, SHA256: p.SHA256, Size: p.Size},
				func(done, total int64) { step.Progress(p.Name+" "+p.Version, done, total) })
			if err != nil {
				return fmt.Errorf("package %s: %w", p.Name, err)
			}
			if err := unpacking.Acquire(ctx, 1); err != nil {
				return err
			}
			defer unpacking.Release(1)
			if out[i], err = unpackDeb(ctx, file, spool); err != nil {
				return fmt.Errorf("package %s %s: %w", p.Name, p.Version, err)
			}
			return nil
		})
	}
	return out, eg.Wait()
}

func unpackDeb(ctx context.Context, file string, spool *rootfs.Spool) (u unpacked, err error) {
	f, err := os.Open(file)
	if err != nil {
		return u, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if u.deb, err = dpkg.OpenDeb(cancelled(ctx, f)); err != nil {
		return u, err
	}
	u.tree = rootfs.New(spool, nil)
	return u, u.deb.Data(func(hdr *tar.Header, r io.Reader) error {
		return u.tree.Add(hdr, cancelled(ctx, r))
	})
}

// packagesLayer holds what the image has beside the driver.
func (b *Builder) packagesLayer(ctx context.Context, r *Recipe, base v1.Image) (v1.Layer, error) {
	if !r.Toolchain {
		return b.installedLayer(ctx, r, base, "packages", r.Packages, nil)
	}
	return b.installedLayer(ctx, r, base, "packages", r.Packages, r.Links)
}

// installedLayer is packages on the base, recorded as installed.
func (b *Builder) installedLayer(ctx context.Context, r *Recipe, base v1.Image, name string, pkgs []apt.Package, links map[string]string) (v1.Layer, error) {
	k, err := key("packages", r.Base.Digest, pins(pkgs), links, r.Compression, r.Epoch)
	if err != nil {
		return nil, err
	}
	return b.debsLayer(ctx, r, base, name, k, pkgs, func(tree, lower *rootfs.Tree, debs []unpacked) error {
		if err := installDebs(tree, lower, debs); err != nil {
			return err
		}
		return addLinks(tree, links)
	})
}

// debsLayer gives packages to install, which lays them over the base.
func (b *Builder) debsLayer(ctx context.Context, r *Recipe, base v1.Image, name, key string, pkgs []apt.Package, install func(tree, lower *rootfs.Tree, debs []unpacked) error) (v1.Layer, error) {
	return b.layer(ctx, r, name, key, func(ctx context.Context, spool *rootfs.Spool, step *Step) (*rootfs.Tree, error) {
		lower, err := b.baseTree(ctx, base, r.Base.Digest, spool, step)
		if err != nil {
			return nil, err
		}
		debs, err := b.unpackDebs(ctx, pkgs, spool, step)
		if err != nil {
			return nil, err
		}
		tree := rootfs.New(spool, lower)
		return tree, install(tree, lower, debs)
	})
}

// placeDebs lays packages over a base as dpkg would without running their scripts, and returns the paths of each package.
func placeDebs(tree *rootfs.Tree, debs []unpacked) ([][]string, error) {
	lists := make([][]string, len(debs))
	for i, u := range debs {
		name := u.deb.Control.Get("Package")
		for _, e := range u.tree.All() {
			if unwanted(e.Path) {
				continue
			}
			lists[i] = append(lists[i], "/"+e.Path)
			if err := install(tree, e); err != nil {
				return nil, fmt.Errorf("install %s: %w", name, err)
			}
		}
	}
	return lists, nil
}

// installDebs places packages and records them in dpkg's database.
func installDebs(tree, lower *rootfs.Tree, debs []unpacked) error {
	lists, err := placeDebs(tree, debs)
	if err != nil {
		return err
	}
	for i, u := range debs {
		if err := recordDeb(tree, lower, u, lists[i]); err != nil {
			return fmt.Errorf("record %s: %w", u.deb.Control.Get("Package"), err)
		}
	}
	return recordStatus(tree, lower, debs)
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

// recordDeb writes the package's files in dpkg's info folder, and removes what an older version of it in the base had and this
// one has not.
func recordDeb(tree, lower *rootfs.Tree, u unpacked, list []string) error {
	stem := dpkgInfo + u.deb.Control.Get("Package")
	if u.deb.Control.Get("Multi-Arch") == "same" {
		stem += ":" + u.deb.Control.Get("Architecture")
	}
	if old, err := lower.ReadFile(stem + ".list"); err == nil {
		if err := removeOld(tree, lower, string(old)); err != nil {
			return err
		}
	}
	if err := addBytes(tree, stem+".list", 0o644, []byte("/.\n"+strings.Join(list, "\n")+"\n")); err != nil {
		return err
	}
	for _, ending := range infoFiles {
		data, ok := u.deb.Files[ending]
		if !ok {
			continue
		}
		if ending == "md5sums" {
			data = wantedSums(data)
		}
		if err := addBytes(tree, stem+"."+ending, 0o644, data); err != nil {
			return err
		}
	}
	return nil
}

// removeOld deletes the files that a replaced version listed and that no new package put there again.
func removeOld(tree, lower *rootfs.Tree, list string) error {
	for line := range strings.Lines(list) {
		p, err := rootfs.Clean(strings.TrimPrefix(strings.TrimSpace(line), "/"))
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

// wantedSums drops the lines of md5sums whose files were left out, so that dpkg --verify finds nothing missing.
func wantedSums(data []byte) []byte {
	var kept bytes.Buffer
	for line := range bytes.Lines(data) {
		if _, file, ok := strings.Cut(string(line), "  "); ok && !unwanted(strings.TrimSpace(file)) {
			kept.Write(line)
		}
	}
	return kept.Bytes()
}

// recordStatus writes dpkg's list of installed packages, with the digests of configuration files that dpkg compares later.
func recordStatus(tree, lower *rootfs.Tree, debs []unpacked) error {
	text, err := lower.ReadFile(dpkgStatus)
	if err != nil {
		text = nil // a base without packages
	}
	status, err := dpkg.ReadStatus(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("%s of the base: %w", dpkgStatus, err)
	}
	var installed []dpkg.Paragraph
	for _, u := range debs {
		p := u.deb.Control
		var conffiles strings.Builder
		for name := range strings.FieldsSeq(string(u.deb.Files["conffiles"])) {
			data, err := tree.ReadFile(strings.TrimPrefix(name, "/"))
			if err != nil {
				continue // a word such as remove-on-upgrade, or a file that is not shipped
			}
			sum := md5.Sum(data) //nolint:gosec // see the import
			fmt.Fprintf(&conffiles, "\n %s %s", name, hex.EncodeToString(sum[:]))
		}
		if conffiles.Len() > 0 {
			p = p.Set("Conffiles", conffiles.String())
		}
		installed = append(installed, p)
	}
	return addBytes(tree, dpkgStatus, 0o644, status.With(installed...))
}

func addBytes(tree *rootfs.Tree, name string, mode fs.FileMode, data []byte) error {
	return tree.AddFile(name, mode, int64(len(data)), bytes.NewReader(data))
}
