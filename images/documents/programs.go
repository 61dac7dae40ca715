package documents

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path"
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

// program is one of our own programs in an image.
type program struct {
	path  string
	build *debug.BuildInfo // nil: it says nothing of its build
}

func isProgram(p string) bool {
	return slices.Contains([]string{
		recipe.BinDir + "/" + recipe.EntrypointName, recipe.BinDir + "/" + recipe.ProbeName, recipe.EvictDir + "/" + recipe.EvictName,
	}, p)
}

// buildInfo reads what a program says of its build, nil for one that says nothing.
func buildInfo(e *rootfs.Entry) (*debug.BuildInfo, error) {
	r, err := e.Open()
	if err != nil {
		return nil, fmt.Errorf("read /%s: %w", e.Path, err)
	}
	f, err := elffile.Read(r, r.Size())
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // no program: verify says so
	}
	data, err := f.Section(".go.buildinfo", maxBuildInfo)
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // as above
	}
	b, _ := parseBuildInfo(data)
	return b, nil
}

// parseBuildInfo reads the section .go.buildinfo as Go 1.18 and later write it: a head of 32 bytes, then the
// compiler's version and the modules, each with its length before it. debug/buildinfo reads the same with
// debug/elf, which is not made for hostile files.
func parseBuildInfo(data []byte) (*debug.BuildInfo, error) {
	const head, inline = 32, 2
	if len(data) < head || !strings.HasPrefix(string(data), "\xff Go buildinf:") || data[15]&inline == 0 {
		return nil, errors.New("it has no build information of Go")
	}
	version, rest, err := text(data[head:])
	if err != nil {
		return nil, err
	}
	modules, _, err := text(rest)
	const sentinel = 16 // bytes before and behind the text, by which other tools find it
	if err != nil || len(modules) < 2*sentinel {
		return nil, errors.Join(err, errors.New("it names no modules"))
	}
	b, err := debug.ParseBuildInfo(modules[sentinel : len(modules)-sentinel])
	if err != nil || len(b.Deps) > maxGoModules {
		return nil, errors.Join(err, errors.New("it has no list of modules"))
	}
	b.GoVersion = version
	return b, nil
}

func text(data []byte) (s string, rest []byte, err error) {
	n, size := binary.Uvarint(data)
	if size <= 0 || n > uint64(len(data)-size) { //nolint:gosec // a length
		return "", nil, errors.New("the text is longer than its section")
	}
	data = data[size:]
	return string(data[:n]), data[n:], nil
}

// addPrograms adds our own programs. They are static, so their modules are in them.
func (g *graph) addPrograms(i *Image, image string) {
	for _, p := range i.own {
		c := component{
			id: "Program-" + i.Arch + p.path, purpose: "APPLICATION", name: path.Base(p.path), path: p.path, sums: []sum{{"SHA256", i.sums[p.path]}},
		}
		if p.build == nil {
			g.relate(image, contains, g.add(c))
			continue
		}
		main := p.build.Main
		c.version = released(main.Version)
		if p.build.Path == main.Path && main.Path != "" {
			c.purl = goPURL(main.Path, main.Version, "")
		} else if dir, ok := strings.CutPrefix(p.build.Path, main.Path+"/"); ok && main.Path != "" {
			c.purl = goPURL(main.Path, main.Version, dir)
		}
		id := g.add(c)
		g.relate(image, contains, id)
		if v, ok := strings.CutPrefix(p.build.GoVersion, "go"); ok { // "go1.26.8 X:experiment"
			v, _, _ = strings.Cut(v, " ")
			g.relate(id, contains, g.add(component{id: "Go-stdlib-" + v, purpose: "LIBRARY", name: "stdlib", version: v,
				purl: goPURL("stdlib", v, ""), licence: "BSD-3-Clause"}))
		}
		for _, m := range p.build.Deps {
			for m.Replace != nil {
				m = m.Replace
			}
			g.relate(id, contains, g.add(component{id: "Go-" + m.Path + "-" + m.Version, purpose: "LIBRARY", name: m.Path, version: m.Version,
				purl: goPURL(m.Path, m.Version, ""), facts: facts("go.sum", m.Sum)}))
		}
	}
}

// released is the version of a Go module, "" for one that is not released.
func released(version string) string {
	if version == "(devel)" {
		return ""
	}
	return version
}

// goPURL is the package URL of a Go module, which is in lower case, or of a folder in it.
func goPURL(module, version, dir string) string {
	url := purl("golang", strings.ToLower(module), released(version), nil)
	if dir != "" {
		url += "#" + percent(dir, "/")
	}
	return url
}
