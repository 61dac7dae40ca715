package kernel

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/compression"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/kernelmodules"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/kmod"
)

// Bounds of a kernel's modules.
const (
	maxModule  = 256 << 20 // bytes of one, unpacked; in-tree ones have up to 15 MiB
	maxModules = 20000     // Ubuntu has 6,900
	maxList    = 4 << 20   // bytes of modules.order
)

// bootModules are inserted before the guest has a root, in this order: those of its disks, its port
// and their file systems. The checksum comes first: ext4 requests it by a program that is not there
// yet. A kernel need not have the optional ones.
var bootModules = []struct {
	name     string
	optional bool
}{
	{"crc32c_generic", true},
	{"virtio_pci", false},
	{"virtio_blk", false},
	{"virtio_console", false},
	{"ext4", false},
	{"erofs", true},
	{"overlay", false},
}

// errModule says that a module of a package is damaged.
var errModule = failure.New(failure.Content, "damaged kernel module")

// modules are those of a kernel.
type modules struct {
	folder  string // below which they are
	tree    kernelmodules.Tree
	builtin map[string]bool // names of those that are part of the kernel
}

// addModules copies the modules of a kernel from its packages into a tree, unpacked: the kernel's
// programs read no compressed ones. It makes the files of depmod, which scripts of packages make.
func addModules(tree, from *rootfs.Tree, release string) (m modules, err error) {
	m.folder = path.Join("usr/lib/modules", release)
	m.builtin = map[string]bool{}
	var all []kernelmodules.Module
	for _, e := range from.All() {
		name, below := strings.CutPrefix(e.Path, m.folder+"/")
		if !below || e.Kind != rootfs.File {
			continue
		}
		stem, _, isModule := strings.Cut(path.Base(name), ".ko")
		if isModule {
			added, err := addModule(tree, e, path.Join(m.folder, path.Dir(name), stem+".ko"))
			if err != nil {
				return m, err
			}
			added.File = path.Join(path.Dir(name), stem+".ko")
			all = append(all, added)
		} else if strings.HasPrefix(name, "modules.") {
			err = tree.AddEntry(e)
			if err != nil {
				return m, err
			}
		}
		if len(all) > maxModules {
			return m, fmt.Errorf("%w: the kernel has more than %d modules", rootfs.ErrTooLarge, maxModules)
		}
	}
	order, err := readList(from, path.Join(m.folder, "modules.order"))
	if err != nil {
		return m, err
	}
	place := map[string]int{}
	for i, file := range order {
		place[file] = i - len(order) // a module that the list lacks comes after it
	}
	slices.SortStableFunc(all, func(a, b kernelmodules.Module) int { return place[a.File] - place[b.File] })
	builtin, err := readList(from, path.Join(m.folder, "modules.builtin"))
	if err != nil {
		return m, err
	}
	for _, file := range builtin {
		m.builtin[nameOf(file)] = true
	}
	m.tree = kernelmodules.ByName(all)
	files, err := kernelmodules.Depmod(all, slices.Sorted(maps.Keys(m.builtin)))
	if err != nil {
		return m, fmt.Errorf("modules of kernel %s: %w", release, err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		err = tree.AddBytes(path.Join(m.folder, name), 0o644, files[name])
		if err != nil {
			return m, err
		}
	}
	return m, nil
}

// addModule unpacks a module into a tree.
func addModule(tree *rootfs.Tree, e *rootfs.Entry, to string) (m kernelmodules.Module, err error) {
	content, err := unpackModule(e)
	if err != nil {
		return m, fmt.Errorf("%s: %w", e.Path, err)
	}
	err = tree.AddBytes(to, 0o644, content)
	if err != nil {
		return m, err
	}
	added, err := tree.Stat(to)
	if err != nil {
		return m, err
	}
	reader, err := added.Open()
	if err != nil {
		return m, err
	}
	m.Linkage, err = kmod.LinkageOf(e.Path, reader, added.Size)
	if err != nil {
		return m, fmt.Errorf("%w: %w", errModule, err)
	}
	m.Name = nameOf(to)
	return m, nil
}

func unpackModule(e *rootfs.Entry) ([]byte, error) {
	packed, err := e.Open()
	if err != nil {
		return nil, err
	}
	head := make([]byte, compression.HeadSize)
	n, err := packed.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	stream := compression.Stream{Limit: maxModule, Format: errModule}
	content, err := stream.Open(packed, compression.Of(head[:n]))
	if err != nil {
		return nil, err
	}
	defer content.Close() //nolint:errcheck // it is read only
	return bounded.Read(content, maxModule)
}

// readList reads a list of module files, one a line; one that is not there is empty.
func readList(from *rootfs.Tree, name string) ([]string, error) {
	text, err := bounded.FSFile(from.OpenFS(), name, maxList)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return strings.Fields(string(text)), nil
}

// nameOf is the name of the module in a file.
func nameOf(file string) string {
	stem, _, _ := strings.Cut(path.Base(file), ".ko")
	return kmod.ModuleName(stem)
}

// boot returns the paths of the modules that a guest inserts before it has a root, in their order.
func (m modules) boot() (paths []string, err error) {
	for _, module := range bootModules {
		if m.builtin[module.name] {
			continue
		}
		files, err := m.tree.Needs(module.name)
		if err != nil {
			return nil, err
		}
		if len(files) == 0 && !module.optional {
			return nil, failure.Errorf(
				failure.Usage,
				"the kernel has no module %s, which the disks of a guest need; rehearse with a kernel for servers",
				module.name,
			)
		}
		for _, file := range slices.Backward(files) {
			file = path.Join(m.folder, file)
			if !slices.Contains(paths, file) {
				paths = append(paths, file)
			}
		}
	}
	return paths, nil
}
