package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	drivercontainer "github.com/driver-container/driver-container"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/matrix"
)

// selectionFlags say which targets of which matrix are meant.
type selectionFlags struct {
	matrix.Selection
	file string // of the matrix
}

func (s *selectionFlags) flags(f *pflag.FlagSet) {
	f.StringSliceVar(&s.Systems, "os", nil, "operating system, such as ubuntu16.04 (repeatable)")
	f.StringSliceVar(&s.Drivers, "driver", nil, "driver version, such as 418.87.01 (repeatable)")
	f.StringSliceVar(&s.Archs, "arch", nil, "architecture: amd64 or arm64 (repeatable; default amd64)")
	f.StringSliceVar(&s.Flavours, "flavour", nil, "kernel module sources: proprietary or open (repeatable; default all of the driver)")
	f.BoolVar(&s.All, "all", false, "every pair of the matrix that works")
	f.BoolVar(&s.AllowIncompatible, "allow-incompatible", false, "build against a compatibility rule, with a warning and a label")
	s.matrixFlag(f)
}

func (s *selectionFlags) matrixFlag(f *pflag.FlagSet) {
	f.StringVar(&s.file, "matrix", "", "the version matrix (default ./matrix.yaml, else the one in this program)")
}

// load reads the matrix: the file given, the one in the current folder, or the embedded one.
func (s *selectionFlags) load() (*matrix.Matrix, error) {
	return batch.ReadMatrix(s.file, drivercontainer.Matrix)
}

// wholeMatrix makes a selection without systems or without drivers mean every pair that is left.
func (s *selectionFlags) wholeMatrix() { s.All = s.All || len(s.Systems) == 0 || len(s.Drivers) == 0 }

// batch reads the matrix and chooses the targets from it.
func (s *selectionFlags) batch() (m *matrix.Matrix, b batch.Batch, err error) {
	if m, err = s.load(); err != nil {
		return nil, b, err
	}
	if !s.All && (len(s.Systems) == 0 || len(s.Drivers) == 0) {
		return nil, b, usageError{errors.New("nothing to build: give --os and --driver, or --all; driver-build list shows what there is")}
	}
	b = batch.Batch{Selection: s.Selection, Given: batch.Given{MatrixFile: s.file}}
	if b.Targets, err = m.Select(s.Selection); err != nil {
		return nil, b, usageError{err}
	}
	if len(b.Targets) == 0 {
		return nil, b, usageError{errors.New("no pair of the matrix is left: driver-build list says why")}
	}
	return m, b, nil
}

// mirrorFlag declares --mirror.
func mirrorFlag(f *pflag.FlagSet, value *string) {
	f.StringVar(value, "mirror", "", "package mirror instead of the addresses in the base's configuration: URL or PREFIX=URL")
}

// sourceFlags say where the base, the packages and the driver come from.
type sourceFlags struct{ batch.Sources }

func (s *sourceFlags) flags(f *pflag.FlagSet) {
	f.StringVar(&s.Base, "base", "", "base image instead of the row's: REF, oci:DIR[:TAG], oci-archive:FILE or docker-archive:FILE")
	mirrorFlag(f, &s.Mirror)
}

// sourceFlag declares --source.
func (s *sourceFlags) sourceFlag(f *pflag.FlagSet) {
	f.StringVar(&s.Source, "source", "", "URL or FILE of the driver's .run archive; the row's checksum still applies")
}

func lockFlag(f *pflag.FlagSet, value *string) {
	f.StringVar(value, "lock", "", "lock to go by: FILE or none (default: matrix.lock beside matrix.yaml, where it is there)")
}

// repositoryFlag declares --repository of commands that look for images in a registry.
func repositoryFlag(f *pflag.FlagSet, value *string) {
	f.StringVar(value, "repository", "", "REGISTRY/PATH to look for images in (default: the matrix's)")
}

// contentFlags say what the images should hold that a registry is asked for.
type contentFlags struct{ profile, entrypoint string }

func (c *contentFlags) flags(f *pflag.FlagSet) {
	f.StringVar(&c.profile, "profile", "", "full or compute (default: the matrix's)")
	entrypointFlag(f, &c.entrypoint)
}

func entrypointFlag(f *pflag.FlagSet, value *string) {
	f.StringVar(value, "entrypoint", "", "driver-entrypoint of the images (default: the one beside this program)")
}

// formatFlag declares -o of a command that prints a table or JSON.
func formatFlag(f *pflag.FlagSet, value *string) {
	f.StringVarP(value, "format", "o", "table", "table or json")
}

func checkFormat(format string) error {
	if format != "table" && format != "json" {
		return usageError{fmt.Errorf("-o %q is not known: use table or json", format)}
	}
	return nil
}

// kernelFlags say for which kernels modules are compiled ahead of time, and what else goes in.
type kernelFlags struct{ batch.Kernels }

func (k *kernelFlags) flags(f *pflag.FlagSet) {
	f.StringSliceVar(&k.Specs, "kernel", nil, "compile the modules for a kernel ahead of time: its release (uname -r), latest, latest:N or all (repeatable)")
	f.StringSliceVar(&k.Flavours, "kernel-flavour", nil, "kernels that latest and all mean, such as cloud-amd64 or aws (repeatable)")
	f.StringSliceVar(&k.Modules, "modules", nil, "with --kernel, the modules to compile, such as nvidia,nvidia-uvm (default: all that the sources offer)")
	f.BoolVar(&k.Together, "one-image", false, "with --kernel, one image <driver>-<os> for all kernels instead of one <driver>-<kernel>-<os> each")
	f.BoolVar(&k.Toolchain, "with-toolchain", false, "with --kernel, put compiler and sources in as well, for nodes with other kernels")
	f.BoolVar(&k.Sources, "with-sources", false, "with --kernel, put the sources of the kernel modules in as well, for drivers that build on them (GDS, GDRCopy)")
}

// brief cuts the help of flags at the colon.
func brief(f *pflag.FlagSet, names ...string) {
	for _, name := range names {
		flag := f.Lookup(name)
		flag.Usage, _, _ = strings.Cut(flag.Usage, ":")
	}
}
