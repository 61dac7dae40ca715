// Package driver reads releases of NVIDIA's driver into one layout, whatever they come from.
package driver

import (
	"context"
	"debug/elf"
	"fmt"
	"path"
	"strings"

	"github.com/driver-container/driver-container/images/packages"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// Layout is part of the cache key of the user-mode driver. Raise it when the same archive is to give
// other files.
const Layout = 2

// Driver is one release of the driver, unpacked, whatever it came from.
type Driver struct {
	User   *rootfs.Tree // libraries, programs, firmware, supported-gpus.json, licence, at their paths in the image
	Kernel *rootfs.Tree // usr/src/nvidia-<version>/kernel and kernel-open
}

// Read reads the driver of a recipe from its archive or packages, complete and without what the profile
// leaves out. Its files are in the spool.
func Read(ctx context.Context, env packages.Env, r *recipe.Recipe, spool *rootfs.Spool, step *progress.Step) (d *Driver, err error) {
	if r.Source.Runfile != nil {
		d, err = readRunfile(ctx, env.Fetch, r, spool, step)
	} else {
		d, err = readDebian(ctx, env, r, spool, step)
	}
	if err != nil {
		return nil, err
	}
	return d, d.complete(r, spool)
}

// complete applies the profile, adds what an installation makes on the spot (soname links, as ldconfig would)
// and refuses a driver that lacks what an image must have.
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
	if err := sonameLinks(user, r.LibDir, r.LibDir32); err != nil {
		return err
	}
	if user.Exists(recipe.FirmwareDir + "/nvidia/" + r.Driver) {
		if err := user.AddLink("usr/lib/firmware/nvidia/"+r.Driver, "../../../share/nvidia-driver/firmware/nvidia/"+r.Driver); err != nil {
			return err
		}
	}
	d.User = user
	for _, name := range []string{r.LibDir + "/libnvidia-ml.so." + r.Driver, r.LibDir + "/libcuda.so." + r.Driver, "usr/bin/nvidia-smi", recipe.LicenceFile} {
		if !user.Exists(name) {
			return fmt.Errorf("the driver's archives have no %s: is this a complete driver %s for %s?", name, r.Driver, r.Arch)
		}
	}
	for _, flavour := range r.Flavours {
		if dir := recipe.KernelDir(r.Driver, flavour); !d.Kernel.Exists(dir + "/Kbuild") {
			return fmt.Errorf("the driver's archives have no %s sources of the kernel modules (%s/Kbuild)", flavour, dir)
		}
	}
	return nil
}

// sonameLinks makes libx.so.1 -> libx.so.535.261.03 for each library that has no link of its soname.
func sonameLinks(tree *rootfs.Tree, dirs ...string) error {
	for _, e := range tree.All() {
		dir := path.Dir(e.Path)
		if e.Kind != rootfs.File || !strings.Contains(path.Base(e.Path), ".so.") || !underAny(dir, dirs) {
			continue
		}
		soname, err := readSoname(e)
		if err != nil {
			return fmt.Errorf("%s: %w", e.Path, err)
		}
		if soname == "" || soname == path.Base(e.Path) || tree.Exists(path.Join(dir, soname)) {
			continue
		}
		if soname != path.Base(soname) {
			return fmt.Errorf("%s: its soname %q is a path", e.Path, soname)
		}
		if err := tree.AddLink(path.Join(dir, soname), path.Base(e.Path)); err != nil {
			return err
		}
	}
	return nil
}

func underAny(name string, dirs []string) bool {
	for _, dir := range dirs {
		if dir != "" && (name == dir || recipe.InFolder(name, dir)) {
			return true
		}
	}
	return false
}

func readSoname(e *rootfs.Entry) (string, error) {
	r, err := e.Open()
	if err != nil {
		return "", err
	}
	f, err := elf.NewFile(r)
	if err != nil {
		return "", fmt.Errorf("not an ELF library: %w", err)
	}
	names, err := f.DynString(elf.DT_SONAME)
	if err != nil || len(names) == 0 {
		return "", err
	}
	return names[0], nil
}
