package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	drivercontainer "github.com/driver-container/driver-container"
	"github.com/driver-container/driver-container/images/matrix"
)

// selection is the part of the flags that says which targets of which matrix.
type selection struct {
	matrixFile                       string
	systems, drivers, archs, flavour []string
	all, incompatible                bool
}

func (s *selection) flags(f *pflag.FlagSet) {
	f.StringArrayVar(&s.systems, "os", nil, "operating system, such as ubuntu16.04 (repeatable)")
	f.StringArrayVar(&s.drivers, "driver", nil, "driver version, such as 418.87.01 (repeatable)")
	f.StringArrayVar(&s.archs, "arch", nil, "architecture: amd64 or arm64 (repeatable; default amd64)")
	f.StringArrayVar(&s.flavour, "flavour", nil, "kernel module sources: proprietary or open (repeatable; default all of the driver)")
	f.BoolVar(&s.all, "all", false, "every pair of the matrix that works")
	f.BoolVar(&s.incompatible, "allow-incompatible", false, "build against a compatibility rule, with a warning and a label")
	f.StringVar(&s.matrixFile, "matrix", "", "the version matrix (default ./matrix.yaml, else the one in this program)")
}

// load reads the matrix: the file given, the one in the current folder, or the embedded one.
func (s *selection) load() (*matrix.Matrix, error) {
	if s.matrixFile != "" {
		data, err := os.ReadFile(s.matrixFile)
		if err != nil {
			return nil, usageError{fmt.Errorf("--matrix: %w", err)}
		}
		return parseMatrix(s.matrixFile, data)
	}
	data, err := os.ReadFile("matrix.yaml")
	if errors.Is(err, fs.ErrNotExist) {
		return matrix.Parse("matrix.yaml (embedded)", drivercontainer.Matrix)
	}
	if err != nil {
		return nil, usageError{fmt.Errorf("read the matrix: %w", err)}
	}
	return parseMatrix("matrix.yaml", data)
}

// maxKeyFile bounds the file of a repository's key; real ones have some kilobytes.
const maxKeyFile = 1 << 20

// parseMatrix reads a matrix and the keys of repositories that it names by file, relative to its own folder.
func parseMatrix(name string, data []byte) (*matrix.Matrix, error) {
	m, err := matrix.Parse(name, data)
	if err != nil {
		return nil, err
	}
	for i, system := range m.Systems {
		for j, rep := range system.Repositories {
			if rep.Key == "" || strings.Contains(rep.Key, "-----BEGIN") {
				continue
			}
			file := rep.Key
			if !filepath.IsAbs(file) {
				file = filepath.Join(filepath.Dir(name), file)
			}
			st, err := os.Stat(file)
			if err == nil && st.Size() > maxKeyFile {
				err = fmt.Errorf("%s has %d bytes, which is no key", file, st.Size())
			}
			var key []byte
			if err == nil {
				key, err = os.ReadFile(file)
			}
			if err != nil {
				return nil, usageError{fmt.Errorf("%s: key of a repository of %s: %w", name, system.ID, err)}
			}
			m.Systems[i].Repositories[j].Key = string(key)
		}
	}
	return m, nil
}

// targets chooses from the matrix.
func (s *selection) targets(m *matrix.Matrix) ([]matrix.Target, error) {
	if !s.all && (len(s.systems) == 0 || len(s.drivers) == 0) {
		return nil, usageError{errors.New("nothing to build: give --os and --driver, or --all; driver-build list shows what there is")}
	}
	targets, err := m.Select(matrix.Selection{
		Systems: s.systems, Drivers: s.drivers, Archs: s.archs, All: s.all, Flavours: s.flavour, AllowIncompatible: s.incompatible,
	})
	if err != nil {
		return nil, usageError{err}
	}
	if len(targets) == 0 {
		return nil, usageError{errors.New("no pair of the matrix is left: driver-build list says why")}
	}
	return targets, nil
}
