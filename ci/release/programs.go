package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/driver-container/driver-container/images/programs"
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

// programs makes driver-build for all platforms, and the programs of images for both
// architectures. driver-build needs no C compiler and no C library: tokens (PKCS#11) are for
// those who compile it themselves.
func (m *maker) programs(ctx context.Context) error {
	install := &programs.Maker{Module: m.source.module, Cache: m.work, Say: func(text string) { fmt.Fprintln(os.Stderr, "release:", text) }}
	find := programs.Finder{Version: m.source.module.Version, Make: install}
	for _, arch := range []string{"amd64", "arm64"} {
		found, err := find.Find(ctx, arch)
		if err != nil {
			return err
		}
		for _, b := range found {
			m.files = append(m.files, program{programs.FileName(b.Name, arch), b.Path, platform{"linux", arch}})
		}
	}
	for _, p := range platforms {
		file, err := install.Install(ctx, filepath.Join(m.work, "driver-build"), "driver-build", p.os, p.arch)
		if err != nil {
			return fmt.Errorf("driver-build for %s: %w", p, err)
		}
		m.files = append(m.files, program{"driver-build", file, p})
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
