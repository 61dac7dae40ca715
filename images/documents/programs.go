package documents

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"path"
	"runtime/debug"
	"strings"

	"github.com/driver-container/driver-container/distros/elffile"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// Bounds of what a program says of its build. driver-entrypoint has 1.5 kB about 20 modules.
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
	return p == recipe.BinDir+"/"+recipe.EntrypointName || p == recipe.BinDir+"/"+recipe.ProbeName
}

// buildInfo reads what a program says of its build, nil for one that says nothing.
func buildInfo(e *rootfs.Entry) (*debug.BuildInfo, error) {
	r, err := e.Open()
	if err != nil {
		return nil, fmt.Errorf("read /%s: %w", e.Path, err)
	}
	f, err := elffile.Read(r, r.Size())
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // verify says what is no program
	}
	section, _ := f.Section(".go.buildinfo", maxBuildInfo)
	return parseBuildInfo(section), nil
}

// parseBuildInfo reads the section .go.buildinfo as Go 1.18 and later write it: a head of 32 bytes,
// then the compiler's version and the modules, each with its length before it. debug/buildinfo
// reads the same with debug/elf, which is not made for hostile files. It returns nil for another
// section.
func parseBuildInfo(data []byte) *debug.BuildInfo {
	const head, inline = 32, 2
	const sentinel = 16 // bytes before and behind the modules, by which other tools find them
	if len(data) < head || !strings.HasPrefix(string(data), "\xff Go buildinf:") ||
		data[15]&inline == 0 {
		return nil
	}
	version, rest := text(data[head:])
	modules, _ := text(rest)
	if len(modules) < 2*sentinel {
		return nil
	}
	b, err := debug.ParseBuildInfo(modules[sentinel : len(modules)-sentinel])
	if err != nil || len(b.Deps) > maxGoModules {
		return nil
	}
	b.GoVersion = version
	return b
}

// text returns the text that data begins with and what follows it; "" if that is longer than data.
func text(data []byte) (s string, rest []byte) {
	n, size := binary.Uvarint(data)
	if size <= 0 || n > uint64(len(data)-size) { //nolint:gosec // a length
		return "", nil
	}
	data = data[size:]
	return string(data[:n]), data[n:]
}

// addPrograms adds our own programs. They are static, so their modules are in them.
func (g *graph) addPrograms(i *ImageContent, image string) {
	for _, p := range i.own {
		build := cmp.Or(p.build, &debug.BuildInfo{})
		main := build.Main
		c := component{
			id:      "Program-" + i.Arch + p.path,
			purpose: "APPLICATION",
			name:    path.Base(p.path),
			path:    p.path,
			sums:    sha256Sum(i.sums[p.path]),
			version: released(main.Version),
		}
		dir, inside := strings.CutPrefix(build.Path+"/", main.Path+"/")
		if main.Path != "" && inside {
			c.purl = goPURL(main.Path, main.Version, strings.TrimSuffix(dir, "/"))
		}
		id := g.contain(image, c)
		compiler, _, _ := strings.Cut(build.GoVersion, " ") // "go1.26.8 X:experiment"
		version, ok := strings.CutPrefix(compiler, "go")
		if ok {
			g.contain(id, component{
				id:      "Go-stdlib-" + version,
				purpose: "LIBRARY",
				name:    "stdlib",
				version: version,
				purl:    goPURL("stdlib", version, ""),
				licence: "BSD-3-Clause",
			})
		}
		for _, m := range build.Deps {
			for m.Replace != nil {
				m = m.Replace
			}
			g.contain(id, component{
				id:      "Go-" + m.Path + "-" + m.Version,
				purpose: "LIBRARY",
				name:    m.Path,
				version: m.Version,
				purl:    goPURL(m.Path, m.Version, ""),
				facts:   facts("go.sum", m.Sum),
			})
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
