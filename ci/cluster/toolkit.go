package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/cache"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/ci/tool"
	"github.com/driver-container/driver-container/distros/driverinfo"
)

const (
	imageModules = "usr/share/nvidia-driver/modules" // in an image of a driver
	imageMake    = "usr/bin/make"                    // in a toolkit
	debianMake   = "usr/bin/make.real"
)

// toolkitMake replaces make in a toolkit. A whole compile takes more than half an hour on the node, which is
// emulated, so Debian's make compiles and links one of the modules, nvidia-modeset, with NVIDIA's Makefile.
// The other modules, and the versions of their symbols, are those that driver-build compiled on this machine.
const toolkitMake = `#!/bin/sh
set -e
[ "$1" = -C ]
for word; do
	case $word in NV_KERNEL_MODULES=*) modules=${word#*=} ;; esac
done
/` + debianMake + ` "$@" NV_KERNEL_MODULES=nvidia-modeset KBUILD_EXTRA_SYMBOLS=/opt/made/Module.symvers
cd "$2"
for module in $modules; do
	[ -f "$module.ko" ] || cp "/opt/made/$module.ko" .
done
`

// PushSources makes an image of a driver that has the sources of its modules, and neither modules nor a
// compiler, and returns its name on the node, which has pulled it.
func (c *Cluster) PushSources(driver string) string {
	c.t.Helper()
	dir, image := sourcesLayout(c.t, c.base, driver)
	c.registry.layout(dir)
	var note []byte
	walk(c.t, image, func(name string, r io.Reader) {
		if name == driverinfo.Path {
			info := require.Value(driverinfo.Decode(require.Value(io.ReadAll(r))(c.t)))(c.t)
			info.Precompiled = nil
			note = require.Value(info.Encode())(c.t)
		}
	})
	whiteout := path.Dir(imageModules) + "/.wh." + path.Base(imageModules)
	return c.pushPulled(driverName+":"+driver+"-sources-"+driverSystem, appendFiles(c.t, image, map[string]file{
		whiteout:        {mode: 0o644},
		driverinfo.Path: {note, 0o644},
	}))
}

// sourcesLayout is driverLayout with the sources of the modules in addition. driver-build finds the modules
// in its cache.
func sourcesLayout(t testing.TB, b base, driver string) (string, v1.Image) {
	t.Helper()
	thin, _ := driverLayout(t, b, driver)
	root := filepath.Join(sourceDir(t), "../..")
	bin := os.Getenv("DRIVER_E2E_BIN")
	if bin == "" {
		bin = filepath.Join(root, "bin")
	}
	key := strings.TrimPrefix(filepath.Base(thin), "driver-"+driver+"-")
	dir := cached(t, "sources-"+driver, key, func(dir string) {
		from := tool.Must(t, filepath.Join(root, "ci/base"), driverSystem)
		tool.Must(t, filepath.Join(bin, "driver-build"), "--os", driverSystem, "--driver", driver, "--kernel", b.release, "--with-sources",
			"--builder", "chroot", "--base", from, "--profile", "compute", "--flavour", "proprietary", "--compression", "zstd",
			"--matrix", filepath.Join(root, "matrix.yaml"), "--output", "oci:"+dir, "--progress", "plain")
	})
	return dir, layoutImage(t, dir)
}

// PushToolkit makes an image that stands for OpenShift's Driver Toolkit: Debian with the packages of the
// node's kernel headers, gcc and make, which is toolkitMake. It returns the image's name on the node, which
// has pulled it, and the SHA-256 of the modules that driver-build compiled for the kernel, by their names.
func (c *Cluster) PushToolkit(driver string) (ref string, modules map[string]string) {
	c.t.Helper()
	root := filepath.Join(sourceDir(c.t), "../..")
	key := require.Value(cache.Key([]string{c.base.release}, filepath.Join(root, "ci/base"), filepath.Join(root, "ci/oci-layout")))(c.t)
	dir := cached(c.t, "toolkit", key, func(dir string) {
		require.NoError(c.t, os.MkdirAll(dir, 0o755))
		tool.Must(c.t, "env", "BASE_DIR="+dir, "BASE_INCLUDE=make,linux-headers-"+c.base.release, filepath.Join(root, "ci/base"), driverSystem)
	})
	dir = filepath.Join(dir, driverSystem+"-amd64")
	c.registry.layout(dir)
	toolkit := layoutImage(c.t, dir)
	files := map[string]file{imageMake: {[]byte(toolkitMake), 0o755}}
	walk(c.t, toolkit, func(name string, r io.Reader) {
		if name == imageMake {
			files[debianMake] = file{require.Value(io.ReadAll(r))(c.t), 0o755}
		}
	})
	_, thin := driverLayout(c.t, c.base, driver)
	modules = map[string]string{}
	walk(c.t, thin, func(name string, r io.Reader) {
		if path.Ext(name) == ".ko" && strings.HasPrefix(name, imageModules+"/") {
			module := require.Value(io.ReadAll(r))(c.t)
			files["opt/made/"+path.Base(name)] = file{module, 0o644}
			sum := sha256.Sum256(module)
			modules[strings.TrimSuffix(path.Base(name), ".ko")] = hex.EncodeToString(sum[:])
		}
	})
	files["opt/made/Module.symvers"] = file{symbols(c.t, files["opt/made/nvidia-modeset.ko"].data), 0o644}
	return c.pushPulled("driver-toolkit:"+driver, appendFiles(c.t, toolkit, files)), modules
}

// symbols returns a Module.symvers of the symbols of module nvidia that another module needs, with the
// versions that are in that module.
func symbols(t testing.TB, module []byte) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "module.ko")
	require.NoError(t, os.WriteFile(file, module, 0o644))
	var text strings.Builder
	for line := range strings.Lines(tool.Must(t, "modprobe", "--dump-modversions", file)) {
		if version, name, _ := strings.Cut(strings.TrimSpace(line), "\t"); strings.HasPrefix(name, "nvidia_") {
			text.WriteString(version + "\t" + name + "\tnvidia\tEXPORT_SYMBOL\t\n")
		}
	}
	return []byte(text.String())
}

// PushOtherToolkit makes an image that stands for a Driver Toolkit of another kernel: a base with the folder
// of that kernel's headers. It returns the image's name on the node, which has pulled it.
func (c *Cluster) PushOtherToolkit(release string) string {
	c.t.Helper()
	from := strings.TrimPrefix(tool.Must(c.t, filepath.Join(sourceDir(c.t), "../base"), driverSystem), "oci:")
	c.registry.layout(from)
	return c.pushPulled("driver-toolkit:other", appendFiles(c.t, layoutImage(c.t, from), map[string]file{
		"usr/src/linux-headers-" + release + "/include/config/kernel.release": {[]byte(release + "\n"), 0o644},
	}))
}
