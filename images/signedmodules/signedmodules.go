// Package signedmodules takes kernel modules that the distribution built and signed out of its
// packages, as they are, and makes sets of them. Where the modules come as objects it links them, by
// a runner, and makes sure that the result is what was signed.
//
// It finds no packages, compiles nothing and signs nothing. Whether a signature is the
// distribution's, only its kernels can say, which have the key.
package signedmodules

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/packages"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/images/runner"
	"github.com/driver-container/driver-container/kmod/kbuild"
)

// output is where the modules are left in the root that links them.
const output = "/modules"

// Source is where the modules of an image come from.
type Source struct {
	Layers layer.Cache
	Env    packages.Env
	Of     packages.Sources // of the packages
	Base   v1.Image
	// returns the runner that links; called only where modules come as objects. nil: none can
	Runner func(context.Context) (runner.Runner, error)
}

// Take passes the set of modules of a kernel and a flavour to use. The set lies on this machine
// until use returns. Errors that wrap ErrPackaged are about what the packages have; others are those
// of downloads and of the runner.
func (s Source) Take(
	ctx context.Context, r *recipe.Recipe, k recipe.Kernel, flavour string,
	spool *rootfs.Spool, step *progress.Step, use func(*kbuild.Set) error,
) (err error) {
	dir, remove, err := layer.WorkFolder(s.Layers.Store)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	work := filepath.Join(dir, "modules")
	err = os.Mkdir(work, 0o755)
	if err != nil {
		return err
	}
	unpacked, err := s.unpack(ctx, r, k.Signed[flavour], spool, step)
	if err != nil {
		return err
	}
	var files []*rootfs.Entry
	for _, p := range unpacked {
		files = append(files, p.Tree.All()...)
	}
	objects, err := findObjects(k.Release, files)
	if err != nil {
		return err
	}
	var names, others []string
	if objects != nil {
		err = s.link(ctx, r, k, flavour, objects, filepath.Join(dir, "linked"), step)
		if err == nil {
			names, err = objects.sign(ctx, filepath.Join(dir, "linked"), work)
		}
	} else {
		names, others, err = findModules(ctx, k.Release, files, work)
	}
	if err != nil {
		return err
	}
	if len(others) > 0 {
		step.Note("left out, because they are not the driver's: " + strings.Join(others, ", "))
	}
	set, err := newSet(kbuild.Key{
		Driver:  r.Driver,
		Flavour: flavour,
		Release: k.Release,
		Arch:    r.Arch,
		Kernel:  "packages " + layer.Key("packages", recipe.Digests(k.Signed[flavour])),
		Method:  kbuild.Method,
	}, work, names, r.Modules)
	if err != nil {
		return err
	}
	set, err = kbuild.Cache{Dir: filepath.Join(dir, "set")}.Put(ctx, set)
	if err != nil {
		return err
	}
	return use(set)
}

// unpack downloads and unpacks packages.
func (s Source) unpack(
	ctx context.Context,
	r *recipe.Recipe,
	pkgs []distros.Package,
	spool *rootfs.Spool,
	step *progress.Step,
) ([]packages.Unpacked, error) {
	lower, err := packages.ReadBase(ctx, s.Layers, s.Base, r.Base.Digest, spool, step)
	if err != nil {
		return nil, err
	}
	reader, err := packages.NewReader(s.Env, s.Of, lower)
	if err != nil {
		return nil, err
	}
	return reader.Unpack(ctx, pkgs, spool, step)
}

// link links modules in a root of base, linker and objects, and leaves them in a folder that it
// makes.
func (s Source) link(
	ctx context.Context, r *recipe.Recipe, k recipe.Kernel, flavour string,
	objects *linkObjects, linked string, step *progress.Step,
) error {
	if s.Runner == nil {
		return errors.New("link modules: there is no runner")
	}
	with, err := s.Runner(ctx)
	if err != nil {
		return err
	}
	layers, err := s.Base.Layers()
	if err != nil {
		return fmt.Errorf("layers of the image to link in: %w", err)
	}
	added, err := s.linkLayer(ctx, r, k, flavour)
	if err != nil {
		return err
	}
	err = os.Mkdir(linked, 0o755)
	if err != nil {
		return err
	}
	step.Note("linking with " + with.String())
	return with.Run(ctx, runner.Step{
		Name:   fmt.Sprintf("link modules %s %s %s", r.Driver, flavour, k.Release),
		Arch:   r.Arch,
		Layers: append(slices.Clone(layers), added),
		Args:   objects.command(output),
		Env: []string{
			"PATH=" + r.SearchPath(recipe.DefaultPath),
			"HOME=/root",
			"ELF_PACKAGE_METADATA=" + objects.metadata,
		},
		Output: output,
	}, linked, step.Note)
}

// linkLayer has the linker and the objects. It is for linking only and records nothing.
func (s Source) linkLayer(
	ctx context.Context,
	r *recipe.Recipe,
	k recipe.Kernel,
	flavour string,
) (v1.Layer, error) {
	pkgs := slices.Concat(r.Compiler, k.Signed[flavour])
	name := "linker and objects " + flavour + " " + k.Release
	of := layer.Spec{
		Target:      r.Target(),
		Arch:        r.Arch,
		Name:        name,
		Key:         layer.Key("linker and objects", r.Base.Digest, recipe.Digests(pkgs), r.Compression, r.Epoch),
		Compression: r.Compression,
		Time:        r.Time(),
	}
	fill := func(ctx context.Context, spool *rootfs.Spool, step *progress.Step) (*rootfs.Tree, error) {
		lower, err := packages.ReadBase(ctx, s.Layers, s.Base, r.Base.Digest, spool, step)
		if err != nil {
			return nil, err
		}
		unpacked, err := s.unpack(ctx, r, pkgs, spool, step)
		if err != nil {
			return nil, err
		}
		tree := rootfs.New(spool, lower)
		return tree, packages.Place(tree, unpacked)
	}
	return s.Layers.Make(ctx, of, fill)
}
