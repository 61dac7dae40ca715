// Command upstream reads public sources that a person downloads or a job reaches. It does not
// download.
//
//	upstream differences FOLDER   prints what differs from the tables of this project, with the source (ci/tables/upstream/differences):
//	                              a person judges each line
//	upstream bulletins FOLDER     prints the rows of data/vulnerabilities.tsv that a clone of NVIDIA/product-security has more or less:
//	                              a person judges and commits them
//	upstream gpus FOLDER          prints the table of images/gpus (ci/tables/upstream/gpus)
//
// The folder of the first:
//
//	open/TAG/{README.md,conftest.sh,*.c}   NVIDIA/open-gpu-kernel-modules: oldest kernel, calls of interfaces
//	gentoo/nvidia-drivers-VERSION.ebuild   MODULES_KERNEL_MAX
//	nixpkgs/*.nix                          versions and checksums of .run archives
//	redist/*.html                          the index of NVIDIA's redist folder
//
// The folder of the second has the list of GPUs of each branch, as supported-gpus.json (450.json,
// since 450) or as appendix A of the README (390.txt), the README of each release of the open
// modules (580.142.md), and pci.ids.
package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	drivercontainer "github.com/driver-container/driver-container"
	"github.com/driver-container/driver-container/images/csaf"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/releases"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "upstream:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) != 2 {
		return errors.New("usage: upstream differences|bulletins|gpus FOLDER")
	}
	if args[0] == "bulletins" {
		return compareBulletins(args[1], out)
	}
	folder := os.DirFS(args[1])
	if args[0] == "gpus" {
		return writeGPUs(folder, out)
	}
	c, err := compare(folder, time.Now())
	if err != nil {
		return err
	}
	for _, line := range c.differs {
		fmt.Fprintln(out, line)
	}
	if len(c.differs) > 0 {
		return fmt.Errorf("%d differences in %d files", len(c.differs), c.files)
	}
	return nil
}

// compareBulletins compares the table of vulnerabilities with bulletins in CSAF.
func compareBulletins(folder string, out io.Writer) error {
	fixes, notes, err := csaf.Read(folder)
	if err != nil {
		return err
	}
	for _, note := range notes {
		fmt.Fprintln(out, "note: "+note)
	}
	lines := releases.BuiltinVulnerabilities().Differences(fixes)
	for _, line := range lines {
		fmt.Fprintln(out, line)
	}
	if len(lines) > 0 {
		return fmt.Errorf("%d differences", len(lines))
	}
	return nil
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

// compare reads the folder. Each source must be there: one that has moved would agree with
// everything.
func compare(folder fs.FS, at time.Time) (*comparison, error) {
	c := &comparison{at: at, table: releases.Builtin()}
	var err error
	c.matrix, err = matrix.Parse("matrix.yaml", drivercontainer.Matrix)
	if err != nil {
		return nil, err
	}
	for _, source := range []struct {
		pattern string
		read    func(name, text string) error
	}{
		{"open/*/README.md", c.readme},
		{"open/*/conftest.sh", c.calls(folder)},
		{"gentoo/*.ebuild", c.ebuild},
		{"nixpkgs/*.nix", c.nix},
		{"redist/*.html", c.index},
	} {
		names, err := fs.Glob(folder, source.pattern)
		if err != nil || len(names) == 0 {
			return nil, fmt.Errorf("no file %s: %w", source.pattern, fs.ErrNotExist)
		}
		for _, name := range names {
			text, err := fs.ReadFile(folder, name)
			if err != nil {
				return nil, err // it names the file
			}
			err = source.read(name, string(text))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			c.files++
		}
	}
	return c, nil
}

// questions are what conftest.sh has to ask about an interface that changed twice: drivers that ask
// for the first change alone do not compile. Of other interfaces any question with their name
// suffices.
var questions = map[string]string{
	"zone_device_page_init": "zone_device_page_init_has_pgmap_and_order_args",
}

// calls compares the interfaces of the matrix with what a tag calls: a driver that calls one
// without asking conftest.sh has to be among the drivers of the interface or of an earlier one,
// because no two may speak of one driver and kernel; one that asks must not be among the drivers of
// the interface.
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
		for n, i := range c.matrix.Interfaces {
			asked := cmp.Or(questions[i.Name], i.Name)
			stale := strings.Contains(text.String(), i.Name+"(") &&
				!strings.Contains(conftest, asked)
			if stale &&
				!slices.ContainsFunc(
					c.matrix.Interfaces[:n+1],
					func(known matrix.Interface) bool { return known.Calls(tag) },
				) {
				c.differ(
					name,
					"driver %s calls %s without conftest.sh, and is not among the drivers of the interface in matrix.yaml",
					tag,
					i.Name,
				)
			}
			if !stale && i.Calls(tag) {
				c.differ(
					name,
					"driver %s is among the drivers of the interface %s in matrix.yaml, and does not call it without conftest.sh",
					tag,
					i.Name,
				)
			}
		}
		return nil
	}
}
