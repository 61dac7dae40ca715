package verify

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/elffile"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// library is an ELF file of the driver.
type library struct {
	entry   *rootfs.Entry
	soname  string
	needed  []string
	machine elffile.Machine
	bits    int
	interp  bool // it asks for a dynamic loader
}

// driverName matches the driver's libraries and programs; the last group of a library is its version.
var driverName = regexp.MustCompile(`^(?:lib(?:nvidia|cuda|cudadebugger|nvcuvid|nvoptix|GLX_nvidia|EGL_nvidia|GLESv1_CM_nvidia|GLESv2_nvidia|vdpau_nvidia)[^/]*\.so(?:\.([0-9.]+))?|nvidia-[a-z-]+)$`)

// releaseVersion is a driver's version, as against the short version of a soname.
var releaseVersion = regexp.MustCompile(`^[1-9][0-9]{2,}\.[0-9]+(\.[0-9]+)?$`)

// driverFiles reads the headers of the driver's ELF files in the library folders and program folders.
func driverFiles(tree *rootfs.Tree) ([]library, error) {
	var libs []library
	for _, e := range tree.All() {
		if e.Kind != rootfs.File || !driverName.MatchString(path.Base(e.Path)) || !strings.Contains(e.Path, "lib") && !strings.Contains(e.Path, "bin/") ||
			strings.HasPrefix(e.Path, "usr/src/") {
			continue
		}
		l, err := readLibrary(e)
		if errors.Is(err, elffile.ErrMagic) || errors.Is(err, elffile.ErrFormat) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.Path, err)
		}
		libs = append(libs, l)
	}
	return libs, nil
}

func readLibrary(e *rootfs.Entry) (library, error) {
	r, err := e.Open()
	if err != nil {
		return library{}, err
	}
	f, err := elffile.Read(r, e.Size)
	if err != nil {
		return library{}, err
	}
	return library{entry: e, machine: f.Machine, bits: f.Bits, interp: f.Interp, soname: f.Soname, needed: f.Needed}, nil
}

func (s *subject) machine() elffile.Machine {
	arch, _ := distros.LookupArch(s.config.Architecture)
	return arch.Machine
}

func checkMachine(s *subject, find func(Severity, string, string, ...any)) {
	for _, l := range s.drivers {
		if l.machine != s.machine() && l.machine != elffile.I386 {
			find(Error, l.entry.Path, "is for %s, the image for %s", l.machine, s.config.Architecture)
		}
	}
}

func checkSonames(s *subject, find func(Severity, string, string, ...any)) {
	for _, l := range s.drivers {
		if l.soname == "" || l.bits != 64 {
			continue
		}
		if dir := path.Dir(l.entry.Path); !s.tree.Exists(path.Join(dir, l.soname)) {
			find(Error, l.entry.Path, "nothing in /%s has its soname %s: add the link", dir, l.soname)
		}
	}
}

// consumerLibraries are what the driver's graphics libraries take from the container that uses them: a driver
// image has no X11, Wayland or libglvnd.
var consumerLibraries = []string{
	"libX11.", "libXext.", "libxcb", "libwayland-", "libdrm.", "libgbm.", "libGL.", "libEGL.", "libGLdispatch.", "libOpenGL.", "libGLX.",
	"libvulkan.", "libcrypto.", "libssl.", "libnvidia-egl-wayland.", "libgtk-", "libgcc_s.", "libstdc++.",
}

func checkNeeded(s *subject, find func(Severity, string, string, ...any)) {
	dirs := append(s.resolvedDirs(), "usr/lib", "lib")
	for _, l := range s.drivers {
		if l.bits != 64 {
			continue // 32-bit libraries are for containers that bring the 32-bit C library
		}
		for _, need := range l.needed {
			if slices.ContainsFunc(append(dirs, path.Dir(l.entry.Path)), func(dir string) bool { return s.tree.Exists(path.Join(dir, need)) }) {
				continue
			}
			if recipe.HasPrefix(consumerLibraries, need) {
				find(Note, l.entry.Path, "needs %s, which the container that uses it must have", need)
				continue
			}
			find(Error, l.entry.Path, "needs %s, which the image has not", need)
		}
	}
}
