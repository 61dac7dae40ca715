package session

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/programs"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/version"
)

// The variables of the environment that take the place of a flag that is not given.
const (
	cacheVariable      = "DRIVER_BUILD_CACHE"
	caVariable         = "DRIVER_BUILD_CA"
	repositoryVariable = "DRIVER_BUILD_REPOSITORY"
)

// CacheDir is the folder of the cache, which need not exist.
func (a *App) CacheDir() (string, error) {
	if dir := cmp.Or(a.cache, a.Getenv(cacheVariable)); dir != "" {
		return dir, nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", Usagef(
			"no place for the cache: %w; give --cache DIR, or "+cacheVariable+" in the environment",
			err,
		)
	}
	if !filepath.IsAbs(dir) { // it would be another folder after each cd
		return "", Usagef(
			"no place for the cache: $HOME is %q, which is not absolute; give --cache DIR, or "+cacheVariable+" in the environment",
			filepath.Dir(dir),
		)
	}
	return filepath.Join(dir, "driver-build"), nil
}

// Mirrors are the mirrors of registries: those of the command line, then those of the matrix.
func (a *App) Mirrors(ofMatrix map[string][]string) (map[string][]string, error) {
	all := map[string][]string{}
	for _, m := range a.RegistryMirrors {
		host, mirror, ok := strings.Cut(m, "=")
		if !ok || host == "" || mirror == "" {
			return nil, Usagef(
				"--registry-mirror %q: give HOST=MIRROR, such as docker.io=mirror.example.com:5000",
				m,
			)
		}
		if err := registry.CheckMirror(host, mirror); err != nil {
			return nil, Usagef("--registry-mirror: %w", err)
		}
		all[host] = append(all[host], mirror)
	}
	for host, list := range ofMatrix {
		all[host] = append(all[host], list...)
	}
	return all, nil
}

// Repository is the repository of images: that of the flag, else of the environment, else of the
// matrix.
func (a *App) Repository(flag string, defaults matrix.Defaults) string {
	return cmp.Or(flag, a.Getenv(repositoryVariable), defaults.Repository)
}

// Epoch is SOURCE_DATE_EPOCH, seconds since 1970; 0 without it.
func (a *App) Epoch() (int64, error) {
	text := a.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > recipe.LastEpoch {
		return 0, Usagef("SOURCE_DATE_EPOCH %q is not a number of seconds since 1970 (to the year 9999)", text)
	}
	return n, nil
}

// Now is the time that a command uses: SOURCE_DATE_EPOCH, so that equal inputs give an equal
// result, or the clock, in UTC and whole seconds.
func (a *App) Now() (time.Time, error) {
	if a.Getenv("SOURCE_DATE_EPOCH") == "" {
		return a.Today().UTC().Truncate(time.Second), nil
	}
	epoch, err := a.Epoch()
	return time.Unix(epoch, 0).UTC(), err
}

// Today is the time of the clock, which policies go by whatever SOURCE_DATE_EPOCH says.
func (a *App) Today() time.Time {
	if a.Clock != nil {
		return a.Clock()
	}
	return time.Now()
}

// Programs finds the programs for images of this version, or makes them until ctx ends. A nil
// finder is for commands that take what there is.
func (a *App) Programs(ctx context.Context, f *programs.Finder) Programs {
	if a.Binaries != nil {
		return a.Binaries
	}
	f = cmp.Or(f, &programs.Finder{Partial: true})
	err := a.prepare(f)
	if err != nil {
		return func(string) ([]recipe.Binary, error) { return nil, err }
	}
	return func(arch string) ([]recipe.Binary, error) { return f.Find(ctx, arch) }
}

// GuestProgram finds the program for the guests of a rehearsal, or makes it.
func (a *App) GuestProgram(ctx context.Context) (file string, err error) {
	var f programs.Finder
	err = a.prepare(&f)
	if err != nil {
		return "", err
	}
	return f.Guest(ctx)
}

// prepare tells a finder where programs of this version are, and what they can be made of.
func (a *App) prepare(f *programs.Finder) error {
	cache, err := a.CacheDir()
	if err != nil {
		return err
	}
	cache, err = filepath.Abs(cache)
	if err != nil {
		return err
	}
	f.Dirs = []string{programDir(), programs.SystemDir}
	f.Version = version.Own()
	f.Make = &programs.Maker{
		Cache:   cache,
		Offline: a.Offline,
		Notify:  func(text string) { a.Notes(text) },
	}
	if bi, ok := debug.ReadBuildInfo(); ok {
		f.Make.Module = programs.Module{
			Path:    bi.Main.Path,
			Version: bi.Main.Version,
			Sum:     bi.Main.Sum,
		}
		if !strings.HasSuffix(os.Args[0], ".test") { // which has the same path
			f.Make.Checkout = checkout(bi.Main.Path)
		}
	}
	return nil
}

// checkout is the folder of the sources that this program was compiled of, "" if they are not there
// any more: as the compiler wrote it into the program or, with -trimpath, the folder of
// bin/driver-build.
func checkout(module string) string {
	_, file, _, _ := runtime.Caller(0)
	for _, dir := range []string{filepath.Join(file, "../../../.."), filepath.Dir(programDir())} {
		goMod, _ := os.ReadFile(filepath.Join(dir, "go.mod")) // else it is none
		if filepath.IsAbs(dir) && strings.HasPrefix(string(goMod), "module "+module+"\n") {
			return dir
		}
	}
	return ""
}

// programDir is the folder of this program, where the programs for images are too.
func programDir() string {
	exe, err := os.Executable()
	if err != nil {
		return "."
	}
	target, err := filepath.EvalSymlinks(exe)
	if err != nil {
		return filepath.Dir(exe)
	}
	return filepath.Dir(target)
}

// BuildInfo is what the Go tool wrote into this program. The revision of a program that was made of
// a module, as those of a release are, is the module's version: Go knows no commit then.
func BuildInfo() recipe.BuilderInfo {
	info := recipe.BuilderInfo{Version: version.Own()}
	bi, ok := debug.ReadBuildInfo()
	if !ok {
		return info
	}
	if bi.Main.Sum != "" {
		info.Revision = bi.Main.Version
	}
	for _, s := range bi.Settings {
		if s.Key == "vcs.revision" {
			info.Revision = s.Value
		}
	}
	return info
}
