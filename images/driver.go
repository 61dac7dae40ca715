package images

import (
	"context"
	"debug/elf"
	"fmt"
	"path"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/images/rootfs"
)

// Where the driver's parts are in an image, besides the library folder and usr/bin. The firmware is not in lib/firmware:
// the GPU Operator mounts over that folder in the driver's pod, so the entrypoint brings it to the driver root; a link in
// usr/lib/firmware leads there for everything that looks into the image itself.
const (
	ShareDir      = "usr/share/nvidia-driver"
	FirmwareDir   = ShareDir + "/firmware" // below it nvidia/<version>/*.bin, as the kernel asks for them
	SupportedGPUs = ShareDir + "/supported-gpus.json"
	LicenceFile   = "licenses/LICENSE"
)

// Driver is one release of the driver, unpacked, whatever it came from.
type Driver struct {
	User   *rootfs.Tree // libraries, programs, firmware, supported-gpus.json, licence, at their paths in the image
	Kernel *rootfs.Tree // usr/src/nvidia-<version>/kernel and kernel-open
}

func kernelDir(version, flavour string) string {
	if flavour == "open" {
		return "usr/src/nvidia-" + version + "/kernel-open"
	}
	return "usr/src/nvidia-" + version + "/kernel"
}

type driverLayers struct{ user, kernel v1.Layer }

// driverLayers makes both layers of the driver. They come from one pass over its archives, and only if one of them is not
// in the cache. They do not depend on the system but on its library folders.
func (b *Builder) driverLayers(ctx context.Context, r *Recipe) (driverLayers, error) {
	userKey, err := key("user-mode", r.Source.pins(), r.Driver, r.LibDir, r.LibDir32, r.Profile, r.Compression, r.Epoch)
	if err != nil {
		return driverLayers{}, err
	}
	kernelKey, err := key("kernel-sources", r.Source.pins(), r.Driver, r.Flavours, r.Compression, r.Epoch)
	if err != nil {
		return driverLayers{}, err
	}
	step := b.Observe.Begin(r.Target(), "driver "+r.Driver)
	cache := layerCache{b.Store}
	var have driverLayers
	have.user, _ = cache.get(userKey)
	have.kernel, _ = cache.get(kernelKey)
	if have.user != nil && have.kernel != nil {
		return have, step.End(true, nil)
	}
	made, err := once(ctx, &b.running, userKey+kernelKey, func() (driverLayers, error) {
		return b.unpackDriver(ctx, r, have, userKey, kernelKey, step)
	})
	if err != nil {
		err = fmt.Errorf("driver %s: %w", r.Driver, err)
	}
	return made, step.End(false, err)
}

// unpackDriver makes the layers that have lacks.
func (b *Builder) unpackDriver(ctx context.Context, r *Recipe, have driverLayers, userKey, kernelKey string, step *Step) (out driverLayers, err error) {
	spool, err := rootfs.NewSpool(b.Store.Dir())
	if err != nil {
		return out, err
	}
	defer func() { _ = spool.Close() }() // nothing to lose: the file has no name
	var d *Driver
	if r.Source.Runfile != nil {
		d, err = b.runfileDriver(ctx, r, spool, step)
	} else {
		d, err = b.debianDriver(ctx, r, spool, step)
	}
	if err != nil {
		return out, err
	}
	if err := d.complete(r, spool); err != nil {
		return out, err
	}
	out = have
	eg, ctx := errgroup.WithContext(ctx)
	if have.user == nil {
		eg.Go(func() (err error) { out.user, err = b.finish(ctx, r, userKey, d.User, step); return err })
	}
	if have.kernel == nil {
		eg.Go(func() (err error) { out.kernel, err = b.finish(ctx, r, kernelKey, d.Kernel, step); return err })
	}
	return out, eg.Wait()
}

// complete applies the profile, adds what an installation makes on the spot (soname links, as ldconfig would) and refuses a
// driver that lacks what an image must have.
func (d *Driver) complete(r *Recipe, spool *rootfs.Spool) error {
	user := rootfs.New(spool, nil)
	for _, e := range d.User.All() {
		if e.Kind == rootfs.Dir || !r.Profile.keeps(e.Path, r.LibDir, r.LibDir32) {
			continue
		}
		if err := install(user, e); err != nil {
			return err
		}
	}
	if err := sonameLinks(user, r.LibDir, r.LibDir32); err != nil {
		return err
	}
	if user.Exists(FirmwareDir + "/nvidia/" + r.Driver) {
		if err := user.AddLink("usr/lib/firmware/nvidia/"+r.Driver, "../../../share/nvidia-driver/firmware/nvidia/"+r.Driver); err != nil {
			return err
		}
	}
	d.User = user
	for _, name := range []string{r.LibDir + "/libnvidia-ml.so." + r.Driver, r.LibDir + "/libcuda.so." + r.Driver, "usr/bin/nvidia-smi", LicenceFile} {
		if !user.Exists(name) {
			return fmt.Errorf("the driver's archives have no %s: is this a complete driver %s for %s?", name, r.Driver, r.Arch)
		}
	}
	for _, flavour := range r.Flavours {
		if dir := kernelDir(r.Driver, flavour); !d.Kernel.Exists(dir + "/Kbuild") {
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
		if dir != "" && (name == dir || inFolder(name, dir)) {
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
