package documents

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/elffile"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// Bounds of what a program says of its build. driver-evict, the largest, has 4 kB about 60 modules.
const (
	maxBuildInfo = 1 << 20 // bytes
	maxGoModules = 4096
)

// Program is one of our own programs in an image.
type Program struct {
	File
	Build *debug.BuildInfo // nil: it says nothing of its build
}

func isProgram(p string) bool {
	return slices.Contains([]string{
		recipe.BinDir + "/" + recipe.EntrypointName, recipe.BinDir + "/" + recipe.ProbeName, recipe.EvictDir + "/" + recipe.EvictName,
	}, p)
}

func programs(tree *rootfs.Tree) (all []Program, err error) {
	for _, e := range tree.All() {
		if e.Kind != rootfs.File || !isProgram(e.Path) {
			continue
		}
		p := Program{}
		if p.File, err = file(tree, "/"+e.Path); err != nil {
			return nil, err
		}
		r, err := e.Open()
		if err != nil {
			return nil, fmt.Errorf("read /%s: %w", e.Path, err)
		}
		if f, err := elffile.Read(r, r.Size()); err == nil {
			p.Build = buildInfo(f)
		}
		all = append(all, p)
	}
	return all, nil
}

// buildInfo reads the section .go.buildinfo as Go 1.18 and later write it: a head of 32 bytes, then the
// compiler's version and the modules, each with its length before it. debug/buildinfo reads the same with
// debug/elf, which is not made for hostile files. It returns nil for a program without a usable section.
func buildInfo(f *elffile.File) *debug.BuildInfo {
	const head, inline = 32, 2
	data, err := f.Section(".go.buildinfo", maxBuildInfo)
	if err != nil || len(data) < head || !strings.HasPrefix(string(data), "\xff Go buildinf:") || data[15]&inline == 0 {
		return nil
	}
	version, rest, err := text(data[head:])
	if err != nil {
		return nil
	}
	modules, _, err := text(rest)
	const sentinel = 16 // bytes before and behind the text, by which other tools find it
	if err != nil || len(modules) < 2*sentinel {
		return nil
	}
	b, err := debug.ParseBuildInfo(modules[sentinel : len(modules)-sentinel])
	if err != nil || len(b.Deps) > maxGoModules {
		return nil
	}
	b.GoVersion = version
	return b
}

func text(data []byte) (s string, rest []byte, err error) {
	n, size := binary.Uvarint(data)
	if size <= 0 || n > uint64(len(data)-size) { //nolint:gosec // a length
		return "", nil, errors.New("the text is longer than its section")
	}
	data = data[size:]
	return string(data[:n]), data[n:], nil
}
