// Command upstream compares the tables of this project with public sources that a person downloads or a job
// reaches (ci/tables/upstream/run), and prints what differs, with the source. It does not download, and changes
// nothing: a person judges each line.
//
// The folder that it reads:
//
//	open/TAG/{README.md,conftest.sh,*.c}   NVIDIA/open-gpu-kernel-modules: oldest kernel, calls of interfaces
//	gentoo/nvidia-drivers-VERSION.ebuild   MODULES_KERNEL_MAX
//	nixpkgs/*.nix                          versions and checksums of .run archives
//	redist/*.html                          the index of NVIDIA's redist folder
package main

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	drivercontainer "github.com/driver-container/driver-container"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/releases"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: upstream FOLDER")
		os.Exit(2) //nolint:forbidigo // this is main.go
	}
	c, err := compare(os.DirFS(os.Args[1]), time.Now())
	if err != nil {
		fmt.Fprintln(os.Stderr, "upstream:", err)
		os.Exit(2) //nolint:forbidigo // this is main.go
	}
	for _, line := range c.differs {
		fmt.Println(line)
	}
	fmt.Fprintf(os.Stderr, "upstream: %d lines of %d files\n", len(c.differs), c.files)
	if len(c.differs) > 0 {
		os.Exit(1) //nolint:forbidigo // this is main.go
	}
}

// comparison is what was read of the sources.
type comparison struct {
	table   *releases.Table
	matrix  *matrix.Matrix
	at      time.Time
	files   int
	differs []string
}

func (c *comparison) differ(source, format string, args ...any) {
	if line := source + ": " + fmt.Sprintf(format, args...); !slices.Contains(c.differs, line) {
		c.differs = append(c.differs, line)
	}
}

// compare reads the folder. Each source must be there: one that has moved would agree with everything.
func compare(folder fs.FS, at time.Time) (*comparison, error) {
	c := &comparison{at: at, table: releases.Builtin()}
	var err error
	if c.matrix, err = matrix.Parse("matrix.yaml", drivercontainer.Matrix); err != nil {
		return nil, err
	}
	for _, source := range []struct {
		pattern string
		read    func(name, text string) error
	}{
		{"open/*/README.md", c.readme}, {"open/*/conftest.sh", c.calls(folder)}, {"gentoo/*.ebuild", c.ebuild}, {"nixpkgs/*.nix", c.nix}, {"redist/*.html", c.index},
	} {
		names, err := fs.Glob(folder, source.pattern)
		if err != nil || len(names) == 0 {
			return nil, fmt.Errorf("no file %s: %w", source.pattern, fs.ErrNotExist)
		}
		for _, name := range names {
			text, err := fs.ReadFile(folder, name)
			if err == nil {
				err = source.read(name, string(text))
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			c.files++
		}
	}
	return c, nil
}

// calls compares the interfaces of the matrix with what a tag calls: a driver that calls one without asking
// conftest.sh has to be among the drivers of the interface, and one that asks must not be.
func (c *comparison) calls(folder fs.FS) func(string, string) error {
	return func(name, conftest string) error {
		sources, err := fs.Glob(folder, path.Dir(name)+"/*.c")
		if err != nil {
			return err
		}
		var text strings.Builder
		for _, s := range sources {
			one, err := fs.ReadFile(folder, s)
			if err != nil {
				return err
			}
			text.Write(one)
		}
		tag := path.Base(path.Dir(name))
		for _, i := range c.matrix.Interfaces {
			stale := strings.Contains(text.String(), i.Name+"(") && !strings.Contains(conftest, i.Name)
			if stale && !i.Calls(tag) {
				c.differ(name, "driver %s calls %s without conftest.sh, and is not among the drivers of the interface in matrix.yaml", tag, i.Name)
			}
			if !stale && i.Calls(tag) {
				c.differ(name, "driver %s is among the drivers of the interface %s in matrix.yaml, and does not call it without conftest.sh", tag, i.Name)
			}
		}
		return nil
	}
}
