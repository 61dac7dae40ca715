// Package driver reads releases of NVIDIA's driver into one layout, whatever they come from.
package driver

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/elffile"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/packages"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// Layout is part of the cache key of the user-mode driver. Raise it when the same archive is to
// give other files.
const Layout = 2

// ErrContent says that an archive or package, although it is the one that was pinned, is not the
// driver that it should be: of another version or architecture, incomplete, or damaged inside.
var ErrContent = failure.New(failure.Content, "not the driver that it should be")

// Driver is one release of the driver, unpacked, whatever it came from.
type Driver struct {
	// libraries, programs, firmware, supported-gpus.json, licence, at their paths in the image
	User   *rootfs.Tree
	Kernel *rootfs.Tree // usr/src/nvidia-<version>/kernel and kernel-open
}

// Read reads the driver of a recipe from its archive or packages, complete and without what the
// profile leaves out. Its files are in the spool.
func Read(
	ctx context.Context,
	env packages.Env,
	r *recipe.Recipe,
	spool *rootfs.Spool,
	step *progress.Step,
) (d *Driver, err error) {
	if r.Source.Archive() != nil {
		d, err = readArchive(ctx, env, r, spool, step)
	} else {
		d, err = readDebian(ctx, env, r, spool, step)
	}
	if err != nil {
		return nil, err
	}
	if err := d.patch(ctx, env, r); err != nil {
		return nil, err
	}
	return d, d.complete(r, spool)
}

// complete applies the profile, adds what an installation makes on the spot (soname links, as
// ldconfig would) and refuses a driver that lacks what an image must have.
func (d *Driver) complete(r *recipe.Recipe, spool *rootfs.Spool) error {
	user := rootfs.New(spool, nil)
	for _, e := range d.User.All() {
		if e.Kind == rootfs.Dir || !r.Profile.Keeps(e.Path, r.LibDir, r.LibDir32) {
			continue
		}
		if err := user.AddEntry(e); err != nil {
			return err
		}
	}
	if err := checkMachines(user, d.Kernel, r); err != nil {
		return err
	}
	if err := sonameLinks(user, r.LibDir, r.LibDir32); err != nil {
		return err
	}
	folder := "/nvidia/" + r.Driver
	if user.Exists(recipe.FirmwareDir + folder) {
		if err := user.AddLink("usr/lib/firmware"+folder, "../../../share/nvidia-driver/firmware"+folder); err != nil {
			return err
		}
	}
	d.User = user
	firmware := r.Profile.Firmware()
	if firmware != "" && !user.Exists(recipe.FirmwareDir+folder+"/"+firmware) {
		return fmt.Errorf("%w: profile %s: driver %s for %s has no %s: use the profile %s",
			ErrContent, r.Profile, r.Driver, r.Arch, firmware, recipe.CUDA)
	}
	needed := []string{
		r.LibDir + "/libnvidia-ml.so." + r.Driver,
		r.LibDir + "/libcuda.so." + r.Driver,
		"usr/bin/nvidia-smi",
		recipe.LicenceFile,
	}
	lacks := func(name string) bool { return r.Profile.Keeps(name, r.LibDir, "") && !user.Exists(name) }
	if i := slices.IndexFunc(needed, lacks); i >= 0 {
		return fmt.Errorf("%w: it has no %s: is this a complete driver %s for %s?", ErrContent, needed[i], r.Driver, r.Arch)
	}
	if r.VGPU != "" && lacks(recipe.Gridd) {
		return fmt.Errorf("%w: it has no %s: is this a driver for vGPU guests?", ErrContent, recipe.Gridd)
	}
	for _, flavour := range r.Flavours {
		if dir := recipe.KernelDir(r.Driver, flavour); !d.Kernel.Exists(dir + "/Kbuild") {
			return fmt.Errorf("%w: it has no %s sources of the kernel modules (%s/Kbuild)", ErrContent, flavour, dir)
		}
	}
	return nil
}

// sonameLinks makes libx.so.1 -> libx.so.535.261.03 for each library that has no link of its
// soname.
func sonameLinks(tree *rootfs.Tree, dirs ...string) error {
	for _, e := range tree.All() {
		dir := path.Dir(e.Path)
		if e.Kind != rootfs.File || !strings.Contains(path.Base(e.Path), ".so.") ||
			!underAny(dir, dirs...) {
			continue
		}
		f, err := readELF(e)
		if err != nil {
			return err
		}
		soname := f.Soname
		if soname == "" || soname == path.Base(e.Path) || tree.Exists(path.Join(dir, soname)) {
			continue
		}
		if soname != path.Base(soname) {
			return fmt.Errorf("%w: the soname %q of %s is a path", ErrContent, soname, e.Path)
		}
		if err := tree.AddLink(path.Join(dir, soname), path.Base(e.Path)); err != nil {
			return err
		}
	}
	return nil
}

func underAny(name string, dirs ...string) bool {
	return slices.ContainsFunc(
		dirs,
		func(dir string) bool { return dir != "" && (name == dir || recipe.InFolder(name, dir)) },
	)
}

// checkMachines compares the processor of the driver's libraries, programs and binary objects with
// that of the image. Scripts and data, which are no ELF files, have none; a library must be one.
func checkMachines(user, kernel *rootfs.Tree, r *recipe.Recipe) error {
	arch, ok := distros.LookupArch(r.Arch)
	if !ok {
		return fmt.Errorf("no driver exists for architecture %s", r.Arch)
	}
	for _, e := range append(user.All(), kernel.All()...) {
		want := arch.Machine
		library := strings.Contains(path.Base(e.Path), ".so.")
		switch dir := path.Dir(e.Path); {
		case e.Kind != rootfs.File:
			continue
		case underAny(dir, r.LibDir32):
			want = elffile.I386
		case !underAny(dir, r.LibDir, "usr/bin") && path.Base(e.Path) != "nv-kernel.o_binary" && path.Base(e.Path) != "nv-modeset-kernel.o_binary":
			continue
		}
		f, err := readELF(e)
		if errors.Is(err, elffile.ErrMagic) && !library {
			continue
		}
		if err != nil {
			return err
		}
		if f.Machine != want {
			return fmt.Errorf(
				"%w: %s is for %s, the image for %s",
				ErrContent,
				e.Path,
				f.Machine,
				r.Arch,
			)
		}
	}
	return nil
}

func readELF(e *rootfs.Entry) (*elffile.File, error) {
	in, err := e.Open()
	if err != nil {
		return nil, err
	}
	f, err := elffile.Read(in, e.Size)
	if errors.Is(err, elffile.ErrMagic) || errors.Is(err, elffile.ErrFormat) {
		err = fmt.Errorf("%w: %s: %w", ErrContent, e.Path, err)
	}
	return f, err
}
