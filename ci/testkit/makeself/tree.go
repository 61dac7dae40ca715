package makeself

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// FromTree makes an archive of an installed driver: fsys is the root of a tree with the driver,
// laid out as an image of this project or as Debian's packages. skipped lists the paths that do not
// belong into an archive, such as copyright files. The tree is read again when the archive is
// written.
//
// As in NVIDIA's archives, some members are not in the manifest.
func FromTree(fsys fs.FS, version, arch string) (a *Archive, skipped []string, err error) {
	a = &Archive{Version: version, Arch: arch, Compression: "zstd"}
	for _, name := range []string{"makeself.sh", "pkg-history.txt"} {
		text := []byte("# a stand-in for " + name + "\n")
		a.Members = append(
			a.Members,
			Member{Name: name, Mode: 0o644, Size: int64(len(text)), Open: Bytes(text)},
		)
	}
	have := make(map[string]string)
	err = fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		m, err := member(fsys, name, d, version)
		if err != nil {
			return err
		}
		if m.Name == "" {
			skipped = append(skipped, name)
			return nil
		}
		key := m.Name
		if m.Open == nil {
			key += " -> " + m.Line
		}
		if old, twice := have[key]; twice {
			return fmt.Errorf("%s and %s are the same member %s", old, name, m.Name)
		}
		have[key] = name
		a.Members = append(a.Members, m)
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("make an archive of driver %s: %w", version, err)
	}
	return a, skipped, nil
}

// member returns the member for a path; without a name for one that does not belong into an
// archive.
func member(fsys fs.FS, name string, d fs.DirEntry, version string) (m Member, err error) {
	info, err := d.Info()
	if err != nil {
		return m, err
	}
	switch d.Type() {
	case fs.ModeSymlink:
		target, err := fs.ReadLink(fsys, name)
		m.Name, m.Line = classify(name, target, version)
		return m, err
	case 0:
		m.Name, m.Line = classify(name, "", version)
	}
	m.Size = info.Size()
	m.Mode = info.Mode().Perm()
	m.Open = func() (io.ReadCloser, error) { return fsys.Open(name) }
	typ, _, _ := strings.Cut(m.Line, " ")
	m.Mode = cmp.Or(modes[typ], m.Mode)
	return m, nil
}

// modes are those of NVIDIA's manifests, by type; packages have other ones.
var modes = map[string]fs.FileMode{
	"CUDA_LIB":        0o755,
	"UTILITY_BINARY":  0o755,
	"NVIDIA_MODPROBE": 0o755,
	"DOCUMENTATION":   0o444,
	"CUDA_ICD":        0o444,
}

// libraryDirs are the library folders in which a driver may be installed.
var libraryDirs = []struct{ dir, arch, member string }{
	{"usr/lib/x86_64-linux-gnu", "NATIVE", ""},
	{"usr/lib/aarch64-linux-gnu", "NATIVE", ""},
	{"usr/lib64", "NATIVE", ""},
	{"usr/lib/i386-linux-gnu", "COMPAT32", "32/"}, {"usr/lib32", "COMPAT32", "32/"},
}

// places maps paths in an installed driver to members and lines. VERSION stands for the driver's
// version; %n for the rest of the path, %b for its last part, %d for the folder of the whole. The
// first match counts.
var places = []struct{ prefix, member, line string }{
	{"usr/src/nvidia-VERSION/", "%n", "KERNEL_MODULE_SRC INHERIT_PATH_DEPTH:1 MODULE:resman"},
	{
		"usr/share/nvidia-driver/firmware/nvidia/VERSION/",
		"firmware/%n",
		"FIRMWARE INHERIT_PATH_DEPTH:1 MODULE:gsp",
	},
	{"usr/lib/firmware/nvidia/VERSION/", "firmware/%n", "FIRMWARE INHERIT_PATH_DEPTH:1 MODULE:gsp"},
	{"lib/firmware/nvidia/VERSION/", "firmware/%n", "FIRMWARE INHERIT_PATH_DEPTH:1 MODULE:gsp"},
	{"licenses/LICENSE", "LICENSE", "DOCUMENTATION NVIDIA_GLX-1.0/ MODULE:installer"},
	{"LICENSE", "LICENSE", "DOCUMENTATION NVIDIA_GLX-1.0/ MODULE:installer"},
	{
		"usr/share/nvidia-driver/supported-gpus.json",
		"supported-gpus/%b",
		"DOCUMENTATION NVIDIA_GLX-1.0/supported-gpus/ MODULE:installer",
	},
	{"usr/bin/nvidia-modprobe", "nvidia-modprobe", "NVIDIA_MODPROBE /usr/bin/ MODULE:installer"},
	{"usr/bin/", "%n", "UTILITY_BINARY MODULE:nvml"},
	{"etc/nvidia/", "%b", explicit},
	{"etc/OpenCL/vendors/nvidia", "%b", "CUDA_ICD MODULE:gpgpu"},
	{"etc/vulkan/", "%b", explicit},
	{"usr/lib/systemd/system/", "%b", explicit},
	{"usr/lib/xorg/modules/", "%b", explicit},
	{"usr/share/X11/xorg.conf.d/", "%b", explicit},
	{"usr/share/doc/NVIDIA_GLX-1.0/", "%b", explicit},
	{"usr/share/egl/egl_external_platform.d/", "%b", explicit},
	{"usr/share/glvnd/egl_vendor.d/", "%b", explicit},
	{"usr/share/man/", "%b", explicit},
	{"usr/share/nvidia/", "%b", explicit},
}

const explicit = "EXPLICIT_PATH /%d/ MODULE:installer"

// classify returns the name of a member and the rest of its manifest line after FILE and MODE.
// target is what a link points to, "" for a file. Both are empty for a path that does not belong
// into an archive.
func classify(name, target, version string) (member, line string) {
	dir, base := path.Split(name)
	for _, l := range libraryDirs {
		if sub, found := strings.CutPrefix(dir, l.dir+"/"); found {
			switch {
			case sub == "" && strings.HasPrefix(base, "lib"):
				sub = "/"
			case !slices.Contains([]string{"vdpau/", "gbm/", "nvidia/wine/", "nvidia/gridd/"}, sub):
				return "", ""
			}
			if target != "" {
				return l.member + base, fmt.Sprintf(
					"CUDA_SYMLINK %s %s %s MODULE:gpgpu",
					l.arch,
					sub,
					target,
				)
			}
			return l.member + base, fmt.Sprintf("CUDA_LIB %s %s MODULE:gpgpu", l.arch, sub)
		}
	}
	if target != "" { // of programs, manifests have links beside their target alone
		if dir != "usr/bin/" || path.Base(target) != target {
			return "", ""
		}
		return base, "UTILITY_BIN_SYMLINK " + target + " MODULE:installer"
	}
	for _, p := range places {
		if rest, found := strings.CutPrefix(name, strings.ReplaceAll(p.prefix, "VERSION", version)); found {
			words := strings.NewReplacer("%n", rest, "%b", base, "%d", path.Clean(dir))
			member = words.Replace(p.member)
			line = words.Replace(p.line)
			if base == "dkms.conf" {
				line = strings.Replace(line, "KERNEL_MODULE_SRC", "DKMS_CONF", 1)
			}
			return member, line
		}
	}
	return "", ""
}
