package host

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/kmod/kbuild/buildtree"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/modules"
	"github.com/driver-container/driver-container/node/status"
)

// ImageCompile is a compile for an image. The machine needs no GPU, need not run that kernel, and
// need not be a node.
type ImageCompile struct {
	Release    string   // of the kernel
	Flavour    string   // driverinfo.Open or Proprietary
	Modules    []string // names without ".ko"; empty: all that the sources offer
	MaxThreads int      // 0: from the limits of the container
	Dir        string   // gets the set as an entry of a kbuild.Cache

	root    string // for tests; "": "/"
	scratch string // "": scratchDir
	path    string // of programs; "": PATH
}

// CompileForImage compiles modules with the compiler, the headers and the sources of the image. The result
// does not depend on the running kernel or on a cache, and nothing is fetched. Errors: config.ErrConfig,
// *buildtree.NoHeadersError, *kbuild.NoCompilerError, *kbuild.CompileError, those of files.
func CompileForImage(ctx context.Context, c ImageCompile, log *slog.Logger) (*kbuild.Set, error) {
	if c.Flavour != driverinfo.Open && c.Flavour != driverinfo.Proprietary {
		return nil, fmt.Errorf(
			"%w: --kernel-module-type is %q; with --into it must be open or proprietary: there is no GPU to choose by",
			config.ErrConfig,
			c.Flavour,
		)
	}
	if c.Release == "" || c.MaxThreads < 0 {
		return nil, fmt.Errorf(
			"%w: --into needs --kernel RELEASE, and --max-threads must not be negative",
			config.ErrConfig,
		)
	}
	c.root = cmp.Or(c.root, "/")
	c.scratch = cmp.Or(c.scratch, scratchDir)
	info, err := readInfo(c.root)
	if err != nil {
		return nil, err
	}
	names, err := chooseModules(
		modulesOf(filepath.Join(c.root, modules.Sources(info.Driver, c.Flavour))),
		c.Modules,
	)
	if err != nil {
		return nil, fmt.Errorf("%s modules of driver %s: %w", c.Flavour, info.Driver, err)
	}
	h, err := buildtree.Find(c.Release, []buildtree.Root{{Dir: c.root, Name: status.FromImage}})
	if err != nil {
		return nil, err
	}
	id, err := kbuild.HeadersID(h)
	if err != nil {
		return nil, err
	}
	job, err := modules.Request{Image: c.root, Info: info, Flavour: c.Flavour, Modules: names,
		Companions: driverinfo.Companions(), MaxThreads: c.MaxThreads, Path: c.path, Work: c.scratch, Log: filepath.Join(c.scratch, "compile.log")}.Job(ctx, id, h, log)
	if err != nil {
		return nil, err
	}
	set, err := job.Compile(ctx, log)
	if err != nil {
		return nil, err
	}
	kept, err := kbuild.Cache{Dir: c.Dir}.Put(ctx, set)
	if err != nil {
		return nil, err
	}
	return kept, os.RemoveAll(c.scratch)
}

// modulesOf returns the modules that the sources can build, in their order of loading.
func modulesOf(source string) (names []string) {
	dirs, err := filepath.Glob(filepath.Join(source, "*", "*.Kbuild"))
	if err != nil {
		return nil
	}
	for _, file := range dirs {
		if name := filepath.Base(filepath.Dir(file)); filepath.Base(file) == name+".Kbuild" {
			names = append(names, name)
		}
	}
	order := driverinfo.Modules()
	rank := func(name string) int {
		if i := slices.Index(order, name); i >= 0 {
			return i
		}
		return len(order)
	}
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	return names
}

// chooseModules returns the requested modules. A driver needs at least the first two.
func chooseModules(offers, asked []string) ([]string, error) {
	if len(offers) == 0 {
		return nil, fmt.Errorf("%w: the image has no sources of that flavour", config.ErrConfig)
	}
	if len(asked) == 0 {
		return offers, nil
	}
	for _, name := range asked {
		if !slices.Contains(offers, name) {
			return nil, fmt.Errorf(
				"%w: --modules: there is no module %.80q; the sources offer %s",
				config.ErrConfig,
				name,
				strings.Join(offers, ", "),
			)
		}
	}
	needed := map[string]string{} // module -> what does not work without
	for _, name := range driverinfo.RequiredModules() {
		needed[name] = "a driver"
	}
	for _, user := range asked {
		for _, name := range driverinfo.Needs(user) {
			needed[name] = cmp.Or(needed[name], user)
		}
	}
	for name, user := range needed {
		if !slices.Contains(asked, name) && slices.Contains(offers, name) {
			return nil, fmt.Errorf(
				"%w: --modules: %s does not work without %s",
				config.ErrConfig,
				user,
				name,
			)
		}
	}
	return slices.DeleteFunc(
		slices.Clone(offers),
		func(name string) bool { return !slices.Contains(asked, name) },
	), nil
}
