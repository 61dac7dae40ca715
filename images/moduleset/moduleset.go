// Package moduleset puts sets of compiled modules into layers and gets them out again. In an image each set
// is a folder of recipe.ModulesDir, as in a kbuild.Cache.
package moduleset

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/kmod/kbuild"
)

// Bounds of a layer with modules.
const (
	maxModule = 1 << 30 // bytes of a file; NVIDIA's largest module has 65 MB without debug information
	maxFiles  = 2_000   // of sets together; a set has six
)

// Split returns the folder of a set and the file in it of a path below ModulesDir:
// "535.261.03-proprietary-...", "nvidia.ko".
func Split(name string) (set, file string, ok bool) {
	rest, below := strings.CutPrefix(name, recipe.ModulesDir+"/")
	set, file = path.Split(rest)
	return strings.TrimSuffix(set, "/"), file, below && strings.Count(rest, "/") == 1
}

// Add puts a stored set into a tree: its modules and its manifest.
func Add(tree *rootfs.Tree, set *kbuild.Set) error {
	names := []string{kbuild.ManifestName}
	for _, f := range set.Modules {
		names = append(names, filepath.Base(f.Path))
	}
	for _, name := range names {
		if err := addLocal(tree, path.Join(recipe.ModulesDir, filepath.Base(set.Dir), name), filepath.Join(set.Dir, name)); err != nil {
			return fmt.Errorf("modules %s: %w", set.Key, err)
		}
	}
	return nil
}

// addLocal copies a file of this machine into a tree.
func addLocal(tree *rootfs.Tree, name, file string) (err error) {
	f, err := bounded.Open(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return tree.AddFile(name, 0o644, info.Size(), io.LimitReader(f, info.Size()))
}

// Each calls f for each set of modules of a layer, which is checked and lies on this machine until f returns.
// work is an empty folder for f.
func Each(ctx context.Context, store *fetch.Store, l v1.Layer, f func(set *kbuild.Set, work string) error) (err error) {
	dir, remove, err := layer.WorkFolder(store)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	there := kbuild.Cache{Dir: filepath.Join(dir, "there")}
	names, err := extract(ctx, l, there.Dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		set, err := there.Find(ctx, func(k kbuild.Key) bool { return k.String() == name })
		if err != nil {
			return fmt.Errorf("modules %s: %w", name, err)
		}
		work := filepath.Join(dir, "work")
		if err := os.Mkdir(work, 0o755); err != nil {
			return err
		}
		if err := errors.Join(f(set, work), os.RemoveAll(work)); err != nil {
			return err
		}
	}
	return nil
}

// extract copies the sets of modules of a layer to a folder and names them, in their order.
func extract(ctx context.Context, l v1.Layer, dir string) (names []string, err error) {
	first := map[string]string{} // name of a module in the layer -> its copy here, until a set names it too
	err = eachFile(ctx, l, func(m member) error {
		if m.set == "" {
			first[m.name] = filepath.Join(dir+".kmm", strconv.Itoa(len(first)))
			return copyFile(first[m.name], m.content)
		}
		if len(names) == 0 || names[len(names)-1] != m.set {
			names = append(names, m.set)
		}
		name := filepath.Join(dir, m.set, m.file)
		if m.link == "" {
			return copyFile(name, m.content)
		}
		from, ok := first[m.link]
		if !ok {
			return fmt.Errorf("%w: it is a second name of %.100s, which is no module before it in the layer", rootfs.ErrFormat, m.link)
		}
		delete(first, m.link)
		return errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.Rename(from, name))
	})
	for name := range first {
		return nil, errors.Join(err, fmt.Errorf("%w: %.100s belongs to no set of modules: the image was changed after driver-build made it; build it again", rootfs.ErrFormat, name))
	}
	return names, err
}

// member is a file of a set of modules, or a module in recipe.KMMDir, which then is the first name of a file
// of a set.
type member struct {
	name      string // in the layer
	set, file string // "" for a module in recipe.KMMDir
	link      string // first name of the file; "": content is the file's
	content   io.Reader
}

// memberOf returns what a member of a layer is. It is not ok for what neither a set nor KMM has, and for the
// files that depmod makes of the modules.
func memberOf(h *tar.Header) (m member, ok bool, err error) {
	if m.name, err = rootfs.Clean(h.Name); err != nil {
		return m, false, err
	}
	if m.set, m.file, ok = Split(m.name); !ok {
		m.set, m.file = "", ""
	}
	switch {
	case h.Typeflag == tar.TypeReg:
		return m, ok || recipe.InFolder(m.name, recipe.KMMDir) && strings.HasSuffix(m.name, ".ko"), nil
	case h.Typeflag == tar.TypeLink && ok:
		m.link, err = rootfs.Clean(h.Linkname)
		return m, true, err
	}
	return m, false, nil
}

// eachFile calls f for each member of the sets of modules in a layer, and for the modules in recipe.KMMDir,
// which come first. Other files are passed over.
func eachFile(ctx context.Context, l v1.Layer, f func(member) error) (err error) {
	r, err := layer.Open(l)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	files := 0
	buffered := bufio.NewReaderSize(rootfs.Cancellable(ctx, r), 256<<10)
	for tr := tar.NewReader(buffered); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			_, err = io.Copy(io.Discard, buffered) // to the end: only then has the layer's digest been checked
			return err
		}
		if err != nil {
			return fmt.Errorf("read a layer with modules: %w", err)
		}
		m, ok, err := memberOf(h)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if h.Size > maxModule {
			return fmt.Errorf("%s: %w: %d bytes, no module is that large", m.name, rootfs.ErrTooLarge, h.Size)
		}
		if files++; files > maxFiles {
			return fmt.Errorf("%s: %w: more than %d files of modules in a layer", m.name, rootfs.ErrTooLarge, maxFiles)
		}
		m.content = tr
		if err := f(m); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
}

// errFound ends the reading of a layer.
var errFound = errors.New("found")

// ForKMM says whether a layer has its modules in recipe.KMMDir too. It reads the layer up to the first
// of them.
func ForKMM(ctx context.Context, l v1.Layer) (is bool, err error) {
	err = eachFile(ctx, l, func(m member) error {
		is = m.set == ""
		return errFound
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return is, err
}

func copyFile(name string, r io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}

// CopyOut copies the regular files of a folder of an image to this machine.
func CopyOut(ctx context.Context, tree *rootfs.Tree, from, to string) error {
	list, err := tree.ReadDir(from)
	if err != nil {
		return err
	}
	for _, d := range list {
		e, ok := tree.Lstat(path.Join(from, d.Name()))
		if !ok || e.Kind != rootfs.File {
			continue
		}
		if e.Size > maxModule {
			return fmt.Errorf("%s: %w: %d bytes, no module is that large", d.Name(), rootfs.ErrTooLarge, e.Size)
		}
		r, err := e.Open()
		if err != nil {
			return err
		}
		if err := copyFile(filepath.Join(to, d.Name()), rootfs.Cancellable(ctx, io.LimitReader(r, e.Size))); err != nil {
			return err
		}
	}
	return nil
}
