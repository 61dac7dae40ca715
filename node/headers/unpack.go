package headers

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/driver-container/driver-container/distros/lazyregexp"
)

// Limits for all packages of one kernel together. Ubuntu's largest are 150 MB in 30000 files.
const (
	maxBytes   = 2 << 30
	maxEntries = 400_000
)

// unpack writes the packages' headers into the root.
func (f *fetcher) unpack(ctx context.Context, from manager, p *plan, files []string) (installed []string, err error) {
	begin := time.Now()
	t := &tree{root: f.root, release: f.Release, log: f.Log}
	defer func() { err = errors.Join(err, t.close(err != nil)) }()
	for i, pkg := range p.packages {
		t.replace = pkg.upgrade
		if err := t.unpack(ctx, from, files[i], pkg); err != nil {
			return nil, fmt.Errorf("unpack %s: %w", label(pkg.Package), err)
		}
		installed = append(installed, label(pkg.Package))
	}
	if err := t.linkBuild(f.Distro.BuildDirs(f.Release)); err != nil {
		return nil, err
	}
	if !t.complete() {
		return nil, fmt.Errorf("%w: %s says nowhere that it is for kernel %s", ErrPackage, installed[len(installed)-1], f.Release)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := t.publish(); err != nil {
		return nil, err
	}
	f.Log.Info("headers unpacked", "kernel", f.Release, "path", f.at("usr/src"),
		"files", t.entries, "bytes", t.bytes, "duration", time.Since(begin).Round(10*time.Millisecond))
	return installed, nil
}

// unpack writes one package.
func (t *tree) unpack(ctx context.Context, from manager, file string, p item) error {
	in, err := os.Open(file) // a path in the store
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // opened for reading
	skipped := map[string]bool{}
	err = from.members(in, p, func(h *tar.Header, r io.Reader) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return t.member(h, r, skipped)
	})
	if len(skipped) > 0 {
		t.log.Warn("files that are no headers were left out", "package", label(p.Package), "reason", sample(skipped))
	}
	return err
}

// member writes one file, folder or link.
func (t *tree) member(h *tar.Header, r io.Reader, skipped map[string]bool) error {
	if h.Typeflag == tar.TypeReg && h.Mode&0o6000 != 0 {
		return fmt.Errorf("%w: a file with the setuid or setgid bit", ErrPackage)
	}
	t.entries++
	t.bytes += h.Size
	if t.entries > maxEntries || t.bytes > maxBytes {
		return fmt.Errorf("%w: more than %d files or %d bytes", ErrPackage, maxEntries, maxBytes)
	}
	dir, name, ok := t.splitName(h.Name)
	if !ok {
		if h.Typeflag != tar.TypeDir && !strings.HasPrefix(h.Name, "usr/share/") {
			if len(skipped) < 100 {
				skipped[h.Name] = true
			}
		}
		return nil
	}
	a, err := t.area(dir)
	if err != nil {
		return err
	}
	err = t.add(a, name, h, r)
	if a.isModules() && errors.Is(err, syscall.EROFS) {
		// The host's /lib/modules is mounted read-only. Those who look for headers look into /usr/src as well.
		t.log.Warn("not written: the file system is read-only", "path", "/"+dir+"/"+name)
		return nil
	}
	return err
}

func (t *tree) add(a *area, name string, h *tar.Header, r io.Reader) error {
	if h.Typeflag == tar.TypeDir {
		return a.mkdir(name)
	}
	if err := a.mkdir(path.Dir(name)); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeSymlink:
		return t.link(a, h, name)
	case tar.TypeLink:
		return t.hardLink(a, h, name)
	}
	if marks(name) {
		return t.mark(a, name, h, r)
	}
	return t.file(a, name, h, r)
}

// split divides a member's name into the area's folder and the rest, and says whether the member is wanted:
// trees of headers, the tools that they share, and files about this kernel. Everything else (such as
// documentation) is not wanted.
func (t *tree) splitName(name string) (dir, rest string, ok bool) {
	for _, a := range []struct{ dir, prefix string }{
		{"usr/src", "linux"},
		{"usr/src/kernels", t.release},
		{"usr/lib", "linux-kbuild-"},
		{"lib/modules", t.release},
		{"usr/lib/modules", t.release},
	} {
		rest, ok := strings.CutPrefix(name, a.dir+"/")
		if !ok || !strings.HasPrefix(rest, a.prefix) {
			continue
		}
		if first, _, _ := strings.Cut(rest, "/"); a.prefix == t.release && first != t.release {
			continue
		}
		return a.dir, rest, true
	}
	return "", "", false
}

// marks says whether a file marks a folder as the headers of a kernel for programs that look for headers.
// Of the two files, utsrelease.h has the release of the modules in every system; Debian's kernel.release
// has the upstream version ("6.1.192").
func marks(name string) bool {
	return strings.HasSuffix(name, "/include/config/kernel.release") || strings.HasSuffix(name, "/include/generated/utsrelease.h")
}

// sample lists up to three names.
func sample(names map[string]bool) string {
	list := slices.Sorted(maps.Keys(names))
	out := fmt.Sprintf("%.100q", list[:min(len(list), 3)])
	if len(list) > 3 {
		out += " and more"
	}
	return out
}

var utsRelease = lazyregexp.New(`(?m)^#define UTS_RELEASE "([^"\n]*)"`)

// complete says whether one of the trees is for the kernel.
func (t *tree) complete() bool {
	for _, m := range t.marked {
		if strings.TrimSpace(string(m.data)) == t.release {
			return true
		}
		if found := utsRelease().FindSubmatch(m.data); found != nil && string(found[1]) == t.release {
			return true
		}
	}
	return false
}
