package verify

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/elffile"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/kmod/kbuild"
)

func checkEntrypoint(s *subject) {
	command := append(slices.Clone(s.config.Config.Entrypoint), s.config.Config.Cmd...)
	if len(command) == 0 {
		s.find(Error, "", "the image starts nothing: set an entrypoint")
	} else if e, ok := s.which(command[0]); !ok {
		s.find(Error, command[0], "is what the image starts, but is not there or not executable")
	} else {
		s.checkProgram(e)
	}
	if _, ok := s.which(recipe.EntrypointLink); !ok {
		s.find(Error, "", "nvidia-driver is not on PATH: the GPU Operator starts the image with that command")
	}
	e, ok := s.which(recipe.EntrypointName)
	if !ok {
		return // not an image of this project
	}
	switch f, err := readELF(e); {
	case errors.Is(err, elffile.ErrMagic):
		s.find(Error, e.Path, "%v", err)
	case err == nil && f.Interp:
		s.find(Error, e.Path, "is not static: it would depend on the libraries of the base")
	}
	for _, p := range s.lacking() {
		s.find(Note, p.Dir+"/"+p.Name, "is not there: %s", p.Without)
	}
}

// lacking are the optional programs of this project that an image does not have.
func (s *subject) lacking() (all []recipe.OptionalProgram) {
	for _, p := range recipe.OptionalPrograms() {
		if _, ok := s.which(p.Dir + "/" + p.Name); !ok {
			all = append(all, p)
		}
	}
	return all
}

// checkPrograms: the GPU Operator's startup probe and preStop run in the image; consumers run modprobe and
// ldconfig in it.
func checkPrograms(s *subject) {
	for _, name := range []string{"sh", "mkdir", "cat", "mv", "rm", "nvidia-smi", "ldconfig", "modprobe"} {
		s.checkOnPath(name)
	}
	for _, dir := range []string{"usr/bin", "usr/sbin", "bin", "sbin"} {
		e, err := s.tree.Stat(dir + "/nvidia-smi")
		if err != nil {
			continue
		}
		if f, err := readELF(e); errors.Is(err, elffile.ErrMagic) || err == nil && f.Relocatable {
			s.find(Error, e.Path, "is no program: consumers run it to see whether the driver works")
		}
		return
	}
	s.find(Error, "", "nvidia-smi is in none of /usr/bin, /usr/sbin, /bin, /sbin, where consumers look for it")
}

func (s *subject) checkOnPath(name string) {
	e, ok := s.which(name)
	if !ok {
		s.find(Error, "", "%s is not on PATH", name)
		return
	}
	s.checkProgram(e)
}

// checkProgram: a program can be started if it is a script or a whole ELF file for the image's processor.
func (s *subject) checkProgram(e *rootfs.Entry) {
	if why := s.broken(e); why != "" {
		s.find(Error, e.Path, "%s", why)
	}
}

// broken is why a program cannot be started; "" if it can.
func (s *subject) broken(e *rootfs.Entry) string {
	if isScript(e) {
		return ""
	}
	f, err := readELF(e)
	switch {
	case errors.Is(err, elffile.ErrMagic):
		return fmt.Sprintf("is neither a program nor a script: %v", err)
	case err != nil:
		return err.Error()
	case f.Machine != s.machine():
		return fmt.Sprintf("is for %s, the image for %s", f.Machine, s.config.Architecture)
	}
	return ""
}

// checkToolchain: an image that has to compile on the node needs what compiling takes, except the headers,
// which come from the node or its repositories.
func checkToolchain(s *subject) {
	if s.infoErr == nil && !s.info.Toolchain || s.infoErr != nil && s.hasModules() || s.version == "" {
		return
	}
	if !s.hasCompiler() {
		s.find(Error, "", "no C compiler is on PATH: the image has no modules for every kernel and cannot compile them")
	}
	for _, name := range []string{"make", "ld"} {
		if _, ok := s.which(name); !ok {
			s.find(Error, "", "%s is not on PATH: the image has no modules for every kernel and cannot compile them", name)
		} else {
			s.checkOnPath(name)
		}
	}
}

// hasCompiler looks for one on PATH that can be started.
func (s *subject) hasCompiler() bool {
	for _, dir := range s.programDirs() {
		for _, name := range s.below(dir) {
			if e, err := s.tree.Stat(name); err == nil && kbuild.IsCompilerName(path.Base(name)) && isProgram(e) && s.broken(e) == "" {
				return true
			}
		}
	}
	return false
}

func checkEnvironment(s *subject) {
	branch, _, _ := strings.Cut(s.version, ".")
	for _, c := range []struct{ name, of, want string }{
		{"DRIVER_VERSION", "the libraries are", s.version}, {"DRIVER_BRANCH", "the libraries are of", branch}, {"TARGETARCH", "the image is for", s.config.Architecture},
	} {
		if v := s.env(c.name); v != "" && v != c.want {
			s.find(Error, "", "%s is %.100s, %s %s", c.name, v, c.of, c.want)
		}
	}
	if v := s.env("NVIDIA_VISIBLE_DEVICES"); v != "void" {
		s.find(Note, "", "NVIDIA_VISIBLE_DEVICES is %q: without \"void\" the container runtime may inject a driver into the driver's container", v)
	}
}

// maxLicence bounds a licence. Those of Debian's packages have 60 kB.
const maxLicence = 4 << 20

// checkLicence: the terms of the driver ask that they go with it, so they must be there and readable.
func checkLicence(s *subject) {
	all, there := []string{recipe.LicenceFile}, ""
	if !s.tree.Exists(recipe.LicenceFile) { // where the driver's own is, others do not replace it
		all = append(s.below("licenses"), s.below("usr/share/licenses")...)
	}
	for _, name := range all {
		e, err := s.tree.Stat(name)
		if err != nil || e.Kind == rootfs.Dir {
			continue
		}
		there = e.Path
		text := strings.ToLower(string(s.text(name, maxLicence)))
		if e.Mode&0o444 == 0o444 && strings.Contains(text, "nvidia") && (strings.Contains(text, "license") || strings.Contains(text, "licence")) {
			return
		}
	}
	if there == "" {
		s.find(Error, "", "NVIDIA's licence is not in /licenses: its terms ask that it goes with the driver")
		return
	}
	s.find(Error, there, "is not NVIDIA's licence, which all users can read: its terms ask that it goes with the driver")
}

// checkGuest: a vGPU guest without a working licence daemon becomes slow without an error, and an image
// without the label may be published by mistake.
func checkGuest(s *subject) {
	label := s.config.Config.Labels[recipe.LabelVGPU]
	_, ok := s.which(recipe.Gridd)
	switch {
	case label != "" && !ok:
		s.find(Error, recipe.Gridd, "is not there, or cannot be executed: a vGPU guest gets no licence without it")
	case label == "" && ok:
		s.find(Warning, recipe.Gridd, "is the licence daemon of vGPU guests, but the image has no label %s: nothing keeps it from public registries", recipe.LabelVGPU)
	}
}
