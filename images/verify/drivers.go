package verify

import (
	"errors"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/elffile"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// driverFile is a file of the driver, by its name: a library or a program.
type driverFile struct {
	entry   *rootfs.Entry
	version string // the driver's in the name; "": it has none
	library bool
	elf     *elffile.File // nil: it is not one
	damage  error         // why it is not one; nil also for a script
}

// driverName matches the driver's libraries and programs; the last group of a library is its version.
// NVIDIA's archives bring the libraries of libglvnd and OpenCL too, which have versions of their own.
var driverName = regexp.MustCompile(`^(?:lib(?:nvidia|cuda|cudadebugger|nvcuvid|nvoptix|GLX_nvidia|EGL_nvidia|GLESv1_CM_nvidia|GLESv2_nvidia|vdpau_nvidia)[^/]*\.so(?:\.([0-9.]+))?` +
	`|lib(?:OpenCL|GL|GLX|EGL|OpenGL|GLdispatch|GLESv1_CM|GLESv2)\.so(?:\.[0-9.]+)?|nvidia-[a-z-]+)$`)

// releaseVersion is a driver's version, as against the short version of a soname.
var releaseVersion = regexp.MustCompile(`^[1-9][0-9]{2,}\.[0-9]+(\.[0-9]+)?$`)

// driverFolders are the folders below a library folder in which the driver has parts.
var driverFolders = []string{"vdpau", "gbm", "tls", "nvidia", "xorg"}

// driverFiles reads the driver's files in the folders that loaders and consumers search. A library elsewhere,
// such as one of CUDA's compatibility packages, disturbs nobody.
func (s *subject) driverFiles() (files []driverFile) {
	libraries, programs := s.searchedDirs(), s.programDirs()
	for _, e := range s.all {
		name := path.Base(e.Path)
		if e.Kind != rootfs.File || !driverName.MatchString(name) {
			continue
		}
		f := driverFile{entry: e, library: strings.HasPrefix(name, "lib")}
		if f.library && !inLibraryDirs(e.Path, libraries) || !f.library && !slices.Contains(programs, path.Dir(e.Path)) {
			continue
		}
		if v := driverName.FindStringSubmatch(name)[1]; releaseVersion.MatchString(v) {
			f.version = v
		}
		f.elf, f.damage = readELF(e)
		if errors.Is(f.damage, elffile.ErrMagic) && !f.library && isScript(e) {
			f.damage = nil
		}
		files = append(files, f)
	}
	return files
}

// inLibraryDirs reports whether a path lies in one of the folders, or in the driver's part of one.
func inLibraryDirs(p string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool {
		rest, below := strings.CutPrefix(p, dir+"/")
		first, _, deeper := strings.Cut(rest, "/")
		return below && (!deeper || slices.Contains(driverFolders, first))
	})
}

func readELF(e *rootfs.Entry) (*elffile.File, error) {
	r, err := e.Open()
	if err != nil {
		return nil, err
	}
	return elffile.Read(r, r.Size())
}

// isScript reports whether a file begins as one that the kernel starts an interpreter for.
func isScript(e *rootfs.Entry) bool {
	head := make([]byte, 2)
	r, err := e.Open()
	if err == nil {
		_, err = io.ReadFull(r, head)
	}
	return err == nil && string(head) == "#!"
}

// machine is the processor of the image, 0 for one that no driver exists for.
func (s *subject) machine() elffile.Machine {
	arch, _ := distros.LookupArch(s.config.Architecture)
	return arch.Machine
}

// checkELF: a file that the dynamic loader refuses is as good as missing.
func checkELF(s *subject) {
	for _, f := range s.drivers {
		switch {
		case f.damage != nil:
			s.find(Error, f.entry.Path, "%v", f.damage)
		case f.elf != nil && f.elf.Relocatable:
			s.find(Error, f.entry.Path, "is an object file, neither a library nor a program")
		}
	}
}

func checkMachine(s *subject) {
	for _, f := range s.drivers {
		if f.elf != nil && f.elf.Machine != s.machine() && (f.elf.Machine != elffile.I386 || !f.library || s.config.Architecture != "amd64") {
			s.find(Error, f.entry.Path, "is for %s, the image for %s", f.elf.Machine, s.config.Architecture)
		}
	}
}

// checkSonames: programs ask for a library by its soname, so its folder must lead from there to the library.
func checkSonames(s *subject) {
	for _, f := range s.drivers {
		if !f.library || f.elf == nil {
			continue
		}
		name, soname := path.Base(f.entry.Path), f.elf.Soname
		stem := name[:strings.Index(name, ".so")+len(".so")]
		if soname == "" && slices.Contains(coreLibraries, stem) || soname != "" && !strings.HasPrefix(soname, stem) {
			s.find(Error, f.entry.Path, "has the soname %q, which is not that of %s", soname, strings.TrimSuffix(stem, ".so"))
			continue
		}
		if soname == "" || f.elf.Bits != 64 {
			continue
		}
		dir := path.Dir(f.entry.Path)
		at, err := s.tree.Stat(path.Join(dir, soname))
		switch {
		case err != nil:
			s.find(Error, f.entry.Path, "nothing in /%s has its soname %s: add the link", dir, soname)
		case at.Path != f.entry.Path && at.Path != path.Join(dir, soname) && f.version != "" && f.version == s.version:
			s.find(Error, path.Join(dir, soname), "leads to %s, not to %s", at.Path, f.entry.Path)
		}
	}
}

// consumerLibraries are what the driver's graphics libraries take from the container that uses them: a driver
// image has no X11, Wayland or libglvnd.
var consumerLibraries = []string{
	"libX11.", "libXext.", "libxcb", "libwayland-", "libdrm.", "libgbm.", "libGL.", "libEGL.", "libGLdispatch.", "libOpenGL.", "libGLX.",
	"libvulkan.", "libcrypto.", "libssl.", "libnvidia-egl-wayland.", "libgtk-", "libgcc_s.", "libstdc++.",
}

func checkNeeded(s *subject) {
	dirs := s.searchedDirs()
	for _, f := range s.drivers {
		if f.elf == nil || f.elf.Bits != 64 {
			continue // 32-bit libraries are for containers that bring the 32-bit C library
		}
		own := append(slices.Clone(dirs), path.Dir(f.entry.Path))
		if f.entry.Path == recipe.Gridd { // it is started with the folder of its own libraries
			for _, dir := range dirs {
				own = append(own, recipe.GriddDir(dir))
			}
		}
		for _, need := range f.elf.Needed {
			if slices.ContainsFunc(own, func(dir string) bool { return s.tree.Exists(path.Join(dir, need)) }) {
				continue
			}
			if recipe.HasPrefix(consumerLibraries, need) {
				s.find(Note, f.entry.Path, "needs %s, which the container that uses it must have", need)
				continue
			}
			s.find(Error, f.entry.Path, "needs %s, which the image has not", need)
		}
	}
}
