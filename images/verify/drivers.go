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
	*rootfs.Entry
	version string // the driver's in the name; "": it has none
	library bool
	elf     *elffile.File // nil: it is not one
	damage  error         // why it is not one; nil also for a script
}

// driverName matches the driver's libraries and programs; the last group of a library is its
// version. NVIDIA's archives bring the libraries of libglvnd and OpenCL too, which have versions of
// their own.
var driverName = regexp.MustCompile(
	`^(?:lib(?:nvidia|cuda|cudadebugger|nvcuvid|nvoptix|GLX_nvidia|EGL_nvidia|GLESv1_CM_nvidia|GLESv2_nvidia|vdpau_nvidia)[^/]*\.so(?:\.([0-9.]+))?` +
		`|lib(?:OpenCL|GL|GLX|EGL|OpenGL|GLdispatch|GLESv1_CM|GLESv2)\.so(?:\.[0-9.]+)?|nvidia-[a-z-]+)$`,
)

// releaseVersion is a driver's version, as against the short version of a soname.
var releaseVersion = regexp.MustCompile(`^[1-9][0-9]{2,}\.[0-9]+(\.[0-9]+)?$`)

// driverFolders are the folders below a library folder in which the driver has parts.
var driverFolders = []string{"vdpau", "gbm", "tls", "nvidia", "xorg"}

// findDriver reads the driver's files in the folders that loaders and consumers search. A library
// elsewhere, such as one of CUDA's compatibility packages, disturbs nobody.
func (s *subject) findDriver() {
	for _, e := range s.all {
		name := path.Base(e.Path)
		if e.Kind != rootfs.File || !driverName.MatchString(name) {
			continue
		}
		f := driverFile{Entry: e, library: strings.HasPrefix(name, "lib")}
		if f.library && !s.inLibraryDirs(e.Path) ||
			!f.library && !slices.Contains(s.programDirs, path.Dir(e.Path)) {
			continue
		}
		if v := driverName.FindStringSubmatch(name)[1]; releaseVersion.MatchString(v) {
			f.version = v
		}
		f.elf, f.damage = readELF(e)
		if errors.Is(f.damage, elffile.ErrMagic) && !f.library && isScript(e) {
			f.damage = nil
		}
		s.drivers = append(s.drivers, f)
	}
}

// inLibraryDirs reports whether a path lies in one of the library folders, or in the driver's part
// of one.
func (s *subject) inLibraryDirs(p string) bool {
	return slices.ContainsFunc(s.libraryDirs, func(dir string) bool {
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

// ofDriver makes a rule of a check of one file of the driver.
func ofDriver(check func(*subject, driverFile)) func(*subject) {
	return func(s *subject) {
		for _, f := range s.drivers {
			check(s, f)
		}
	}
}

// checkELF: a file that the dynamic loader refuses is as good as missing.
func checkELF(s *subject, f driverFile) {
	switch {
	case f.damage != nil:
		s.fail(f.Path, "%v", f.damage)
	case f.elf != nil && f.elf.Relocatable:
		s.fail(f.Path, "is an object file, neither a library nor a program")
	}
}

func checkMachine(s *subject, f driverFile) {
	if f.elf != nil && f.elf.Machine != s.machine() &&
		(f.elf.Machine != elffile.I386 || !f.library || s.config.Architecture != "amd64") {
		s.fail(f.Path, "is for %s, the image for %s", f.elf.Machine, s.config.Architecture)
	}
}

// checkSoname: programs ask for a library by its soname, so its folder must lead from there to the
// library.
func checkSoname(s *subject, f driverFile) {
	if !f.library || f.elf == nil {
		return
	}
	dir, name := path.Split(f.Path)
	soname := f.elf.Soname
	stem := name[:strings.Index(name, ".so")+len(".so")]
	if soname == "" && slices.Contains(coreLibraries, stem) ||
		soname != "" && !strings.HasPrefix(soname, stem) {
		s.fail(
			f.Path,
			"has the soname %q, which is not that of %s",
			soname,
			strings.TrimSuffix(stem, ".so"),
		)
		return
	}
	if soname == "" || f.elf.Bits != 64 {
		return
	}
	switch at := s.at(dir + soname); {
	case at == nil:
		s.fail(f.Path, "nothing in /%s has its soname %s: add the link", path.Clean(dir), soname)
	case at.Path != f.Path && at.Path != dir+soname && f.version != "" && f.version == s.version:
		s.fail(dir+soname, "leads to %s, not to %s", at.Path, f.Path)
	}
}

// consumerLibraries are what the driver's graphics libraries take from the container that uses
// them: a driver image has no X11, Wayland or libglvnd.
var consumerLibraries = []string{
	"libX11.", "libXext.", "libxcb", "libwayland-", "libdrm.", "libgbm.", "libGL.", "libEGL.", "libGLdispatch.", "libOpenGL.", "libGLX.",
	"libvulkan.", "libcrypto.", "libssl.", "libnvidia-egl-wayland.", "libgtk-", "libgcc_s.", "libstdc++.",
}

func checkNeeded(s *subject, f driverFile) {
	if f.elf == nil || f.elf.Bits != 64 {
		return // 32-bit libraries are for containers that bring the 32-bit C library
	}
	dirs := append(slices.Clone(s.libraryDirs), path.Dir(f.Path))
	if f.Path == recipe.Gridd { // it is started with the folder of its own libraries
		for _, dir := range s.libraryDirs {
			dirs = append(dirs, recipe.GriddDir(dir))
		}
	}
	for _, need := range f.elf.Needed {
		switch {
		case slices.ContainsFunc(dirs, func(dir string) bool { return s.tree.Exists(path.Join(dir, need)) }):
		case recipe.HasPrefix(consumerLibraries, need):
			s.find(Note, f.Path, "needs %s, which the container that uses it must have", need)
		default:
			s.fail(f.Path, "needs %s, which the image has not", need)
		}
	}
}
