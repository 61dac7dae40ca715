package main

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/driver-container/driver-container/images/programs"
	"github.com/driver-container/driver-container/images/recipe"
)

// platforms are those that driver-build is made for.
var platforms = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}

type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "-" + p.arch }

// program is one finished program.
type program struct {
	name     string // of the file in the release
	path     string
	platform platform
}

// programs makes driver-build for all platforms, and the programs of images for both architectures of Linux, all
// of a platform at once. Only driver-probe needs a C compiler. driver-build is made without: tokens (PKCS#11) are
// for those who compile it themselves.
func (m *maker) programs(ctx context.Context) error {
	type batch struct {
		platform platform
		names    []string
	}
	var batches []batch
	for _, p := range platforms {
		if p.os == "linux" {
			batches = append(batches, batch{p, []string{recipe.EntrypointName, recipe.EvictName, "driver-build"}}, batch{p, []string{recipe.ProbeName}})
		} else {
			batches = append(batches, batch{p, []string{"driver-build"}})
		}
	}
	for i, b := range batches {
		install := &programs.Maker{Module: m.source.module}
		m.say("programs, %d of %d: %s for %s", i+1, len(batches), strings.Join(b.names, ", "), b.platform)
		files, err := install.Install(ctx, filepath.Join(m.work, b.platform.String()), b.platform.os, b.platform.arch, b.names...)
		if err != nil {
			return fmt.Errorf("%s for %s: %w", strings.Join(b.names, ", "), b.platform, err)
		}
		for k, name := range b.names {
			if name != "driver-build" {
				name = programs.FileName(name, b.platform.arch)
			}
			m.files = append(m.files, program{name, files[k], b.platform})
		}
	}
	return nil
}

// forImages are the programs that go into images.
func (m *maker) forImages() (all []program) {
	for _, f := range m.files {
		if f.name != "driver-build" {
			all = append(all, f)
		}
	}
	return all
}

// driverBuild is the file of driver-build for a platform.
func (m *maker) driverBuild(p platform) string {
	for _, f := range m.files {
		if f.name == "driver-build" && f.platform == p {
			return f.path
		}
	}
	return ""
}

// ownDriverBuild is driver-build for this machine.
func (m *maker) ownDriverBuild() string { return m.driverBuild(platform{runtime.GOOS, runtime.GOARCH}) }
