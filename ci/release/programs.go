package main

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/driver-container/driver-container/images/programs"
	"github.com/driver-container/driver-container/images/recipe"
)

// platforms are those that driver-build is made for.
var platforms = []platform{
	{"linux", "amd64"},
	{"linux", "arm64"},
	{"darwin", "amd64"},
	{"darwin", "arm64"},
}

type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "-" + p.arch }

// program is one finished program.
type program struct {
	name     string // of the file in the release
	path     string
	platform platform
}

// programs makes driver-build for all platforms, the programs of images for both architectures of
// Linux, and that of guests, which are amd64. driver-build is made without a C compiler: tokens (PKCS#11) are for those who compile
// it themselves.
func (m *maker) programs(ctx context.Context) error {
	for _, p := range platforms {
		names := []string{"driver-build"}
		if p.os == "linux" {
			names = append(names, recipe.EntrypointName, recipe.ProbeName)
		}
		if p == (platform{"linux", "amd64"}) {
			names = append(names, programs.GuestName)
		}
		for _, name := range names {
			m.say("%s for %s", name, p)
			install := &programs.Maker{Module: m.source.module}
			file, err := install.Install(ctx, filepath.Join(m.work, p.String()), p.os, p.arch, name)
			if err != nil {
				return fmt.Errorf("%s for %s: %w", name, p, err)
			}
			if name != "driver-build" {
				name = programs.FileName(name, p.arch)
			}
			m.files = append(m.files, program{name, file, p})
		}
	}
	return nil
}

// programsOf are driver-build of a platform and the programs of images, in the folders where they
// belong.
func (m *maker) programsOf(p platform, bin, others string) []member {
	members := []member{{filepath.Join(bin, "driver-build"), m.driverBuild(p), 0o755}}
	for _, f := range m.files {
		if f.name != "driver-build" {
			members = append(members, member{filepath.Join(others, f.name), f.path, 0o755})
		}
	}
	return members
}

// driverBuild is the file of driver-build for a platform.
func (m *maker) driverBuild(p platform) string {
	return m.files[slices.IndexFunc(m.files, func(f program) bool { return f.name == "driver-build" && f.platform == p })].path
}

// ownDriverBuild is driver-build for this machine.
func (m *maker) ownDriverBuild() string { return m.driverBuild(platform{runtime.GOOS, runtime.GOARCH}) }
