// Package programs finds this project's own programs: driver-entrypoint and driver-probe, which go
// into images, for an architecture, and driver-guest, which goes into guests. They lie beside driver-build (an archive, a checkout), in a
// folder of the system (a package), or in the cache, where this package puts them if it has to make
// them with the Go tool.
//
// A file counts only if it says that it is the right program, for the architecture, of
// driver-build's version and, if driver-build was made of a module, of the same module's content.
// No program is executed, and no other version takes the place of one that is missing.
package programs

import (
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/version"
)

// SystemDir is the folder of packages (deb, rpm).
const SystemDir = "/usr/lib/driver-build"

// Finder finds programs. It is safe for concurrent use.
type Finder struct {
	Dirs    []string // folders to look in, in their order
	Version string   // of driver-build
	Partial bool     // driver-probe may be missing
	Present bool     // nothing is made now: what Make could make is ErrNotMade

	// Make makes what is missing; nil: nothing is made.
	Make *Maker

	mu    sync.Mutex
	found map[string][]recipe.Binary // by the architecture
}

// ErrNotMade says that a program is not here, and that a build makes it.
var ErrNotMade = errors.New("not here yet: the first build makes it with go")

// Find returns the programs for an architecture: the entrypoint, then the probe. It looks for
// them, or makes them, once.
func (f *Finder) Find(ctx context.Context, arch string) (found []recipe.Binary, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.found[arch] == nil {
		found, err = f.find(ctx, arch)
		if err != nil {
			return nil, err
		}
		if f.found == nil {
			f.found = map[string][]recipe.Binary{}
		}
		f.found[arch] = found
	}
	return slices.Clone(f.found[arch]), nil
}

// GuestName is the program in the guests of a rehearsal.
const GuestName = "driver-guest"

// Guest returns the file of the program for guests. All guests are amd64.
func (f *Finder) Guest(ctx context.Context) (path string, err error) {
	found, err := f.program(ctx, GuestName, "amd64")
	if err != nil {
		return "", fmt.Errorf("%s: %w%s", GuestName, err, f.remedy())
	}
	return found.Path, nil
}

func (f *Finder) find(ctx context.Context, arch string) ([]recipe.Binary, error) {
	first, err := f.program(ctx, recipe.EntrypointName, arch)
	if err != nil {
		return nil, fmt.Errorf("the entrypoint for %s: %w%s", arch, err, f.remedy())
	}
	found := []recipe.Binary{first}
	probe, err := f.program(ctx, recipe.ProbeName, arch)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil && f.Partial {
		return found, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s for %s: %w%s", recipe.ProbeName, arch, err, f.remedy())
	}
	return append(found, probe), nil
}

// remedy says how the programs come beside driver-build. What makes them of a checkout says itself
// what it lacks.
func (f *Finder) remedy() string {
	switch {
	case !f.Make.able():
		return "; run make build in its checkout, which makes bin/driver-build and its programs"
	case f.Make.Module.Sum == "":
		return ""
	}
	return "; install driver-build " + f.Version + " from its archive or package, which have all programs"
}

// FileName is the name of a program's file: driver-probe-linux-arm64.
func FileName(name, arch string) string { return name + "-linux-" + arch }

// program takes a program from the first folder that has the right one, or makes it.
func (f *Finder) program(ctx context.Context, name, arch string) (bin recipe.Binary, err error) {
	dirs := slices.Clone(f.Dirs)
	if f.Make.able() && f.Make.keeps() {
		dirs = append(dirs, f.Make.folder())
	}
	var wrong []error
	for _, dir := range dirs {
		found, err := f.check(name, filepath.Join(dir, FileName(name, arch)), arch)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			wrong = append(wrong, err)
		default:
			return found, nil
		}
	}
	switch {
	case !f.Make.able():
		if len(wrong) == 0 {
			wrong = append(
				wrong,
				fmt.Errorf("no %s in %s", FileName(name, arch), strings.Join(f.Dirs, ", ")),
			)
		}
		return bin, errors.Join(wrong...)
	case f.Present:
		return bin, errors.Join(append(wrong, ErrNotMade)...)
	}
	file, err := f.Make.program(ctx, name, arch, func(file string) error {
		_, err := f.check(name, file, arch)
		return err
	})
	if err != nil {
		return bin, errors.Join(append(wrong, err)...)
	}
	return f.check(name, file, arch)
}

// check reads what Go wrote into a program.
func (f *Finder) check(name, path, arch string) (bin recipe.Binary, err error) {
	file, err := bounded.Open(path)
	if err != nil {
		return bin, err
	}
	defer file.Close()
	info, err := buildinfo.Read(file)
	if err != nil {
		return bin, fmt.Errorf("%s: %w", path, err)
	}
	var goarch string
	for _, s := range info.Settings {
		if s.Key == "GOARCH" {
			goarch = s.Value
		}
	}
	v := version.Of(info)
	switch {
	case !strings.HasSuffix(info.Path, "/cmd/"+name):
		return bin, fmt.Errorf("%s is not %s but %s", path, name, info.Path)
	case goarch != arch:
		return bin, fmt.Errorf("%s is a program for %s", path, goarch)
	case v != f.Version:
		return bin, fmt.Errorf(
			"%s is of version %s, driver-build of %s: make both of one commit",
			path,
			v,
			f.Version,
		)
	case f.Make != nil && f.Make.Module.Sum != "" && info.Main.Sum != f.Make.Module.Sum:
		return bin, fmt.Errorf(
			"%s was made of other content of version %s than driver-build: %s, not %s",
			path,
			v,
			info.Main.Sum,
			f.Make.Module.Sum,
		)
	}
	h := sha256.New()
	// from its beginning
	if _, err := io.Copy(h, io.NewSectionReader(file, 0, math.MaxInt64)); err != nil {
		return bin, err
	}
	return recipe.Binary{Name: name, SHA256: hex.EncodeToString(h.Sum(nil)), Path: path}, nil
}
