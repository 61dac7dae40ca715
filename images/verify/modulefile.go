package verify

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/elffile"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/kmod"
)

// moduleFile is the file of a module in a set.
type moduleFile struct {
	name   string
	facts  moduleFacts
	damage error // why the facts are not known
}

// moduleFacts are what a module is made for and what it takes from others.
type moduleFacts struct {
	info      kmod.Info
	exports   []string // symbols that it offers to other modules
	undefined []string // NVIDIA's symbols that it takes from other modules
}

// Bounds of a module's tables, in bytes. The largest driver has 3 MB of symbols.
const (
	maxSymbols = 64 << 20
	symbolSize = 24 // of an ELF file of 64 bits
)

// ownSymbol matches the symbols by which NVIDIA's modules call each other. All others are the kernel's, which
// is not there.
var ownSymbol = regexp.MustCompile(`^(?:nvidia_p2p_|nvidia_get_rm_ops|nvidia_register_module|nvidia_unregister_module|nvUvmInterface|nvKmsKapi)`)

// readModule reads a module file.
func readModule(name string, size int64) (facts moduleFacts, err error) {
	if facts.info, err = kmod.ReadInfo(name); err != nil {
		return facts, err
	}
	in, err := os.Open(name)
	if err != nil {
		return facts, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	f, err := elffile.Read(in, size)
	if errors.Is(err, elffile.ErrMagic) {
		return facts, nil // compressed
	}
	if err != nil {
		return facts, err
	}
	if facts.exports, err = kmod.Exports(f); err != nil {
		return facts, err
	}
	facts.undefined, err = undefinedSymbols(f)
	return facts, err
}

// undefinedSymbols lists NVIDIA's symbols that a module does not define.
func undefinedSymbols(f *elffile.File) (names []string, err error) {
	symbols, err := f.Section(".symtab", maxSymbols)
	if errors.Is(err, elffile.ErrNoSection) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	text, err := f.Section(".strtab", maxSymbols)
	if err != nil {
		return nil, err
	}
	for s := range slices.Chunk(symbols, symbolSize) {
		if len(s) < symbolSize || binary.LittleEndian.Uint16(s[6:]) != 0 { // the section that defines it
			continue
		}
		at := binary.LittleEndian.Uint32(s)
		if uint64(at) >= uint64(len(text)) {
			return nil, fmt.Errorf("%w: a symbol's name lies outside of its table", elffile.ErrFormat)
		}
		name, _, _ := strings.Cut(string(text[at:min(len(text), int(at)+256)]), "\x00")
		if ownSymbol.MatchString(name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// checkSet compares the modules of a set with the kernel that it is for, with the driver and with each other.
func (s *subject) checkSet(m ModuleSet, find finder) {
	have, exports := map[string]bool{}, map[string]bool{}
	for _, i := range m.files {
		have[kmod.ModuleName(i.name)] = true
		for _, name := range i.facts.exports {
			exports[name] = true
		}
	}
	folder := path.Join(recipe.ModulesDir, m.Folder)
	for _, name := range []string{"nvidia", "nvidia_uvm"} {
		if !have[name] {
			find(Error, folder, "has no module %s", name)
		}
	}
	for _, i := range m.files {
		name := path.Join(folder, i.name+".ko")
		if i.damage != nil {
			find(Error, name, "%v", i.damage)
			continue
		}
		s.checkModule(name, m.Kernel, i.facts.info, find)
		for _, need := range i.facts.info.Depends {
			if strings.HasPrefix(need, "nvidia") && !have[need] {
				find(Error, name, "needs the module %s, which its set has not", need)
			}
		}
		for _, symbol := range i.facts.undefined {
			if !exports[symbol] {
				find(Error, name, "needs %s, which no module of its set has", symbol)
			}
		}
	}
}

// checkModule compares what a module says of itself with its place. A companion has a version of its own.
func (s *subject) checkModule(file, release string, info kmod.Info, find finder) {
	if info.Release() != release {
		find(Error, file, "is for kernel %q (vermagic), its folder for %s", info.Release(), release)
	}
	base, _, _ := strings.Cut(path.Base(file), ".ko")
	if info.Version != "" && info.Version != s.version && !slices.Contains(driverinfo.Companions(), base) {
		find(Error, file, "is of driver %s, the image has %s", info.Version, s.version)
	}
	if info.Name != kmod.ModuleName(base) {
		find(Error, file, "is the module %s", info.Name)
	}
}

// installedName matches modules of the driver where distributions install them; the group is the
// kernel's release.
var installedName = regexp.MustCompile(`^(?:usr/)?lib/modules/([^/]+)/.*/nvidia[a-z_-]*\.ko(?:\.gz|\.xz|\.zst)?$`)

// installedModule is a module in the folder of a kernel, as other images than ours have it.
type installedModule struct {
	path, release string
	info          kmod.Info
	damage        error
}

// maxInstalled bounds how many of them are read.
const maxInstalled = 256

func installedModules(ctx context.Context, store *fetch.Store, all []*rootfs.Entry) (list []installedModule, err error) {
	for _, e := range all {
		m := installedName.FindStringSubmatch(e.Path)
		if m == nil || e.Kind != rootfs.File || len(list) == maxInstalled {
			continue
		}
		i := installedModule{path: e.Path, release: m[1]}
		if i.info, i.damage, err = moduleIn(ctx, store, e); err != nil {
			return nil, err
		}
		list = append(list, i)
	}
	return list, nil
}

// moduleIn copies a module out of the image to read it; damage says what is wrong with it.
func moduleIn(ctx context.Context, store *fetch.Store, e *rootfs.Entry) (info kmod.Info, damage, err error) {
	dir, remove, err := layer.WorkFolder(store)
	if err != nil {
		return info, nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	r, err := e.Open()
	if err != nil {
		return info, err, nil
	}
	name := filepath.Join(dir, path.Base(e.Path))
	f, err := os.Create(name)
	if err != nil {
		return info, nil, err
	}
	_, err = io.Copy(f, rootfs.Cancellable(ctx, r))
	if err = errors.Join(err, f.Close()); err != nil {
		return info, nil, err
	}
	info, damage = kmod.ReadInfo(name)
	if damage != nil {
		damage = errors.New(strings.ReplaceAll(damage.Error(), name, "/"+e.Path))
	}
	return info, damage, nil
}
