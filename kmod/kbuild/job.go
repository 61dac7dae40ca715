// Package kbuild compiles NVIDIA's kernel modules for one kernel from the driver's own sources, and
// stores the result.
//
// It finds the compiler that built the kernel (FindCompiler) and the number of jobs that the
// container can afford (Jobs), compiles a copy of the sources with the driver's own Makefile
// (Compile), and stores whole sets of modules under a key of all inputs (Key, Cache). Package
// buildtree finds the headers.
//
// It does not load or download anything, makes no decision about a node, and never writes into the
// sources or the headers. It starts make, the compiler and strip, all with a fixed environment:
// equal inputs at an equal scratch path give equal modules, byte for byte.
package kbuild

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/kmod/kbuild/buildtree"
)

// Job is one compile: the modules of one driver for one kernel.
type Job struct {
	// the driver's own folder: "/usr/src/nvidia-535.261.03/kernel"; never written
	Source    string
	Driver    string   // the version that the modules must have
	Flavour   string   // "proprietary" or "open", for the key
	Patches   []string // names of the patches that Source already has, for the key
	Variables []string // further variables of make, for the key too: "GRID_BUILD=1"
	Kernel    string   // KernelID, for the key
	Headers   buildtree.Headers
	Compiler  Compiler
	Jobs      int      // compilers at the same time, at least 1 (see Jobs)
	Limits    Limits   // where the kernel counts killed compilers; the zero value is the real place
	Modules   []string // wanted, by file name without ".ko": "nvidia", "nvidia-uvm"
	Optional  []string // those of Modules that Source may lack
	// Companions are compiled after the driver's modules, against them. One that does not compile
	// is left out: see Set.Omitted.
	Companions []Companion
	// Work is the parent of the scratch folder: an existing folder on a file system that may run
	// programs. The scratch folder has the sources' blobs three times, then the stripped modules,
	// and the objects: at most 4 times the size of Source and 300 MiB. Measured with 535.261.03:
	// 500 MB for 70 MB of closed sources. With gcc 8 or newer, equal inputs give equal modules in
	// any folder; with older ones, only in the same folder.
	Work string
	Log  string // file that gets the whole output of the compile; replaced
	// Progress is called after every step, from one goroutine; it may be nil. total is an estimate
	// from the driver's own lists of sources and tests, 0 when they cannot be read; done never
	// exceeds it.
	Progress func(done, total int, what string)
}

// Key returns the key of the set that the job compiles.
func (j Job) Key() Key {
	return Key{
		Driver: j.Driver, Flavour: j.Flavour, Release: j.Headers.Release, Arch: runtime.GOARCH, Kernel: j.Kernel,
		Compiler: j.Compiler.Version, Patches: j.Patches, Variables: j.Variables, Companions: companionIDs(j.Companions), Method: Method,
	}
}

// sourceError says that the sources cannot give the wanted modules.
func sourceError(source string, err error) error {
	return fmt.Errorf(
		"the driver's sources in %s: %w; the image is not complete: build it again",
		source,
		err,
	)
}

// check returns the modules to compile, in the order of Modules.
func (j Job) check() ([]string, error) {
	paths := []string{j.Source, j.Work, j.Log, j.Compiler.Path, j.Headers.Build, j.Headers.Source}
	for _, c := range j.Companions {
		paths = append(paths, c.Source)
	}
	for _, path := range paths {
		// make splits its variables at blanks.
		if !filepath.IsAbs(path) || strings.ContainsAny(path, " \t\n$#:'\"") {
			return nil, fmt.Errorf(
				"compile: %q must be an absolute path without blanks and quotes",
				path,
			)
		}
	}
	if err := j.Key().check(); err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	for _, v := range j.Variables {
		if !variable().MatchString(v) {
			return nil, fmt.Errorf("compile: %q is no variable of make with a plain value", v)
		}
	}
	for _, name := range []string{"Makefile", "Kbuild", "conftest.sh"} {
		if !kmod.IsFile(filepath.Join(j.Source, name)) {
			return nil, sourceError(j.Source, fmt.Errorf("%s: %w", name, fs.ErrNotExist))
		}
	}
	var names []string
	for _, name := range j.Modules {
		if !moduleName().MatchString(name) {
			return nil, fmt.Errorf("compile: %q is no name of a module", name)
		}
		switch {
		case isDir(filepath.Join(j.Source, name)):
			names = append(names, name)
		case !slices.Contains(j.Optional, name):
			return nil, sourceError(
				j.Source,
				fmt.Errorf("no folder for the module %s: %w", name, fs.ErrNotExist),
			)
		}
	}
	if len(names) == 0 {
		return nil, errors.New("compile: no module is wanted")
	}
	return names, nil
}

// Set is the modules of one driver for one kernel.
type Set struct {
	Dir     string
	Key     Key
	Modules []File // in the order of Job.Modules
	// SigHash is the hash with which the kernel signs its own modules (CONFIG_MODULE_SIG_HASH),
	// "sha256"; "" when the kernel does not know signatures.
	SigHash     string
	Certificate []byte // DER, of the key that signed all the modules; nil when they are unsigned
	// Omitted are the companions of the key that the set does not have: they do not compile for
	// this kernel.
	Omitted []Omission `json:",omitempty"`
}

// File is one module of a set: uncompressed, without debug information.
type File struct {
	Name   string // file name without ".ko": "nvidia-uvm"
	Path   string
	SHA256 string // 64 hex digits
	Size   int64
	Info   kmod.Info
}

// File returns a module by its name, written with - or _.
func (s *Set) File(name string) (File, bool) {
	i := slices.IndexFunc(
		s.Modules,
		func(f File) bool { return kmod.ModuleName(f.Name) == kmod.ModuleName(name) },
	)
	if i < 0 {
		return File{}, false
	}
	return s.Modules[i], true
}

// searchPath returns the fixed PATH of all programs: the compiler's folder, then the usual ones.
func searchPath(first string) string {
	dirs := []string{first}
	for _, dir := range []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"} {
		if dir != first {
			dirs = append(dirs, dir)
		}
	}
	return strings.Join(dirs, string(os.PathListSeparator))
}

// find looks a program up in a search path. exec.LookPath uses only this process's own path.
func find(program, path string) (string, error) {
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, program)
		if kmod.IsFile(file) && unix.Access(file, unix.X_OK) == nil {
			return file, nil
		}
	}
	return "", fmt.Errorf(
		"look for %s in %s: %w; use an image that has it, or one with precompiled modules",
		program,
		path,
		fs.ErrNotExist,
	)
}
