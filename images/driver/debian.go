package driver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"strings"

	"github.com/driver-container/driver-container/distros/compression"
	"github.com/driver-container/driver-container/distros/dpkg"
	"github.com/driver-container/driver-container/images/packages"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/images/runfile"
)

// Bounds in bytes of supported-gpus.json, which has 0.3 MB today, and of a file whose text is
// replaced.
const (
	maxInflated = 16 << 20
	maxTemplate = 1 << 20
)

// readDebian reads a driver from Debian's packages into the layout that the .run archive installs:
// libraries and programs out of the folders that Debian's alternatives lead to, firmware and
// documents to their places in the image.
func readDebian(
	ctx context.Context,
	env packages.Env,
	r *recipe.Recipe,
	spool *rootfs.Spool,
	step *progress.Step,
) (*Driver, error) {
	debs, err := packages.DebReader(env).Unpack(ctx, r.Source.Packages, spool, step)
	if err != nil {
		return nil, err
	}
	d := &Driver{User: rootfs.New(spool, nil), Kernel: rootfs.New(spool, nil)}
	for _, u := range debs {
		for _, e := range u.Tree.All() {
			if e.Kind == rootfs.Dir {
				continue
			}
			if err := d.takeDebian(ctx, env.XZ, r, u.Name, dpkg.Version(u.Version).Upstream(), e); err != nil {
				return nil, fmt.Errorf("package %s: %s: %w", u.Name, e.Path, err)
			}
		}
	}
	return d, nil
}

// debianPlaces maps paths of Debian's packages to those of the .run archive; LIB stands for the
// library folder. The first pattern that matches counts; an empty place drops the file.
var debianPlaces = []struct{ pattern, place string }{
	{`LIB/nvidia/[^/]+/(libvdpau_nvidia\.so.*)`, "LIB/vdpau/$1"},
	{`LIB/nvidia/[^/]+/nvidia/wine/(.*\.dll)`, "LIB/nvidia/wine/$1"},
	{`LIB/nvidia/[^/]+/(nvoptix\.bin)`, "usr/share/nvidia/$1"},
	{`LIB/nvidia/[^/]+/(lib[^/]*)`, "LIB/$1"},
	{`LIB/(lib[^/]*\.so[^/]*)`, "LIB/$1"},
	{`usr/lib/nvidia/[^/]+/[^/]*\.gz`, ""},
	{`usr/lib/nvidia/[^/]+/(nvidia-[^/]*)`, "usr/bin/$1"},
	{`usr/s?bin/(nvidia-[^/]*)`, "usr/bin/$1"},
	{`(?:usr/)?lib/firmware/(nvidia/.*)`, recipe.FirmwareDir + "/$1"},
	{`usr/share/vulkan/(.*)`, "etc/vulkan/$1"},
	{`((?:usr/share/glvnd|usr/share/egl|etc/OpenCL)/.*)`, "$1"},
	{`(usr/share/nvidia/nvidia-application-profiles-.*)`, "$1"},
}

func debianPlace(name, libDir string) string {
	for _, p := range debianPlaces {
		re := regexp.MustCompile(
			"^(?:" + strings.ReplaceAll(p.pattern, "LIB", regexp.QuoteMeta(libDir)) + ")$",
		)
		if m := re.FindStringSubmatchIndex(name); m != nil {
			return strings.ReplaceAll(string(re.ExpandString(nil, p.place, name, m)), "LIB", libDir)
		}
	}
	return ""
}

func (d *Driver) takeDebian(
	ctx context.Context,
	xz compression.XZProgram,
	r *recipe.Recipe,
	pkg, version string,
	e *rootfs.Entry,
) error {
	base := path.Base(e.Path)
	// readable by everyone, whatever its mode in the package is
	if base == "copyright" && e.Kind == rootfs.File {
		licence := *e
		licence.Mode = 0o644
		e = &licence
	}
	switch {
	case base == "nvidia-drm_gbm.so":
		return d.User.AddLink(r.LibDir+"/gbm/"+base, "../libnvidia-allocator.so.1")
	case strings.HasPrefix(e.Path, "usr/src/") && strings.HasSuffix(base, ".tar.xz"):
		return d.takeKernelTar(ctx, xz, r, recipe.PackageFlavour(pkg), e)
	case base == "supported-gpus.json.gz":
		return d.inflate(e, recipe.SupportedGPUs)
	case base == "copyright" && version != r.Driver:
		return d.User.Move(e, "licenses/"+pkg+".txt")
	case base == "copyright" && recipe.PackageFlavour(pkg) == "open":
		return d.Kernel.Move(e, "licenses/"+pkg+".txt")
	case base == "copyright":
		return d.User.Move(e, recipe.LicenceFile)
	}
	place := debianPlace(e.Path, r.LibDir)
	switch {
	case place == "":
		return nil
	case e.Kind == rootfs.Link && path.Base(e.Target) != e.Target:
		return nil // into the folders of the alternatives, which are gone
	case e.Kind == rootfs.Link:
		return d.User.AddLink(place, e.Target)
	default:
		return d.User.Move(e, place)
	}
}

func (d *Driver) inflate(e *rootfs.Entry, name string) (err error) {
	r, err := e.Open()
	if err != nil {
		return err
	}
	z, err := compression.Stream{Limit: maxInflated, Format: ErrContent}.Open(r, compression.Gzip)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, z.Close()) }()
	data, err := io.ReadAll(z)
	if err != nil {
		return err
	}
	return d.User.AddBytes(name, 0o644, data)
}

// takeKernelTar unpacks modules/<package>/... of a module source package. Debian's own build files
// are left out; the binary objects of the oldest drivers get the names that the driver's Makefile
// asks for.
func (d *Driver) takeKernelTar(
	ctx context.Context,
	xz compression.XZProgram,
	r *recipe.Recipe,
	flavour string,
	e *rootfs.Entry,
) error {
	compressed, err := e.Open()
	if err != nil {
		return err
	}
	return runfile.Unpack(
		rootfs.Cancellable(ctx, compressed),
		xz.Open(ctx),
		true,
		func(m runfile.Member, content io.Reader) error {
			parts := strings.SplitN(m.Name, "/", 3)
			if len(parts) < 3 || strings.HasPrefix(parts[2], "debian/") ||
				parts[2] == "NVIDIA_Changelog" {
				return nil
			}
			name := recipe.KernelDir(r.Driver, flavour) + "/" +
				strings.Replace(parts[2], "-amd64.o_binary", ".o_binary", 1)
			if m.Link != "" {
				return d.Kernel.AddLink(name, m.Link)
			}
			return d.Kernel.AddFile(name, m.Mode, m.Size, content)
		},
	)
}
