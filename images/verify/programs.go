package verify

import (
	"errors"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/elffile"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

func checkEntrypoint(s *subject, find finder) {
	command := append(slices.Clone(s.config.Config.Entrypoint), s.config.Config.Cmd...)
	if len(command) == 0 {
		find(Error, "", "the image starts nothing: set an entrypoint")
	} else if e, ok := s.which(command[0]); !ok {
		find(Error, command[0], "is what the image starts, but is not there or not executable")
	} else {
		s.checkProgram(e, find)
	}
	if _, ok := s.which(recipe.EntrypointLink); !ok {
		find(Error, "", "nvidia-driver is not on PATH: the GPU Operator starts the image with that command")
	}
	e, ok := s.which(recipe.EntrypointName)
	if !ok {
		return // not an image of this project
	}
	switch f, err := readELF(e); {
	case errors.Is(err, elffile.ErrMagic):
		find(Error, e.Path, "%v", err)
	case err == nil && f.Interp:
		find(Error, e.Path, "is not static: it would depend on the libraries of the base")
	}
	for _, p := range recipe.OptionalPrograms() {
		if lacks(s.tree, p) {
			find(Note, p.Dir+"/"+p.Name, "is not there: %s", p.Without)
		}
	}
}

func lacks(tree *rootfs.Tree, p recipe.OptionalProgram) bool {
	e, err := tree.Stat(p.Dir + "/" + p.Name)
	return err != nil || e.Kind != rootfs.File || e.Mode&0o111 == 0
}

// checkPrograms: the GPU Operator's startup probe and preStop run in the image; consumers run modprobe and
// ldconfig in it.
func checkPrograms(s *subject, find finder) {
	for _, name := range []string{"sh", "mkdir", "cat", "mv", "rm", "nvidia-smi", "ldconfig", "modprobe"} {
		s.checkOnPath(name, find)
	}
	for _, dir := range []string{"usr/bin", "usr/sbin", "bin", "sbin"} {
		e, err := s.tree.Stat(dir + "/nvidia-smi")
		if err != nil {
			continue
		}
		if f, err := readELF(e); errors.Is(err, elffile.ErrMagic) || err == nil && f.Relocatable {
			find(Error, e.Path, "is no program: consumers run it to see whether the driver works")
		}
		return
	}
	find(Error, "", "nvidia-smi is in none of /usr/bin, /usr/sbin, /bin, /sbin, where consumers look for it")
}

func (s *subject) checkOnPath(name string, find finder) {
	e, ok := s.which(name)
	if !ok {
		find(Error, "", "%s is not on PATH", name)
		return
	}
	s.checkProgram(e, find)
}

// checkProgram: a program can be started if it is a script or a whole ELF file for the image's processor.
func (s *subject) checkProgram(e *rootfs.Entry, find finder) {
	if isScript(e) {
		return
	}
	f, err := readELF(e)
	switch {
	case errors.Is(err, elffile.ErrMagic):
		find(Error, e.Path, "is neither a program nor a script: %v", err)
	case err != nil:
		find(Error, e.Path, "%v", err)
	case f.Machine != s.machine():
		find(Error, e.Path, "is for %s, the image for %s", f.Machine, s.config.Architecture)
	}
}

// compilerName matches programs that can be a C compiler, as package kbuild looks for them.
var compilerName = regexp.MustCompile(`^(?:[a-z0-9_]+-[a-z0-9-]+-)?(?:gcc|clang)(?:-[0-9.]{1,8})?$|^cc$`)

// checkToolchain: an image that has to compile on the node needs what compiling takes, except the headers,
// which come from the node or its repositories.
func checkToolchain(s *subject, find finder) {
	if info, err := driverinfo.Read(s.tree.OpenFS()); err == nil && !info.Toolchain || err != nil && s.hasModules() || s.version == "" {
		return
	}
	if err := s.findCompiler(); err != "" {
		find(Error, "", "%s: the image has no modules for every kernel and cannot compile them", err)
	}
	for _, name := range []string{"make", "ld"} {
		if _, ok := s.which(name); !ok {
			find(Error, "", "%s is not on PATH: the image has no modules for every kernel and cannot compile them", name)
		} else {
			s.checkOnPath(name, find)
		}
	}
}

// findCompiler looks for one on PATH that can be started. It returns why there is none, or "".
func (s *subject) findCompiler() string {
	for _, dir := range s.programDirs() {
		list, err := s.tree.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, d := range list {
			if !compilerName.MatchString(d.Name()) {
				continue
			}
			e, err := s.tree.Stat(path.Join(dir, d.Name()))
			if err != nil || e.Kind != rootfs.File || e.Mode&0o111 == 0 {
				continue
			}
			broken := false
			s.checkProgram(e, func(Severity, string, string, ...any) { broken = true })
			if !broken {
				return ""
			}
		}
	}
	return "no C compiler is on PATH"
}

func checkEnvironment(s *subject, find finder) {
	branch, _, _ := strings.Cut(s.version, ".")
	for _, c := range []struct{ name, of, want string }{
		{"DRIVER_VERSION", "the libraries are", s.version}, {"DRIVER_BRANCH", "the libraries are of", branch}, {"TARGETARCH", "the image is for", s.config.Architecture},
	} {
		if v := s.env(c.name); v != "" && v != c.want {
			find(Error, "", "%s is %.100s, %s %s", c.name, v, c.of, c.want)
		}
	}
	if v := s.env("NVIDIA_VISIBLE_DEVICES"); v != "void" {
		find(Note, "", "NVIDIA_VISIBLE_DEVICES is %q: without \"void\" the container runtime may inject a driver into the driver's container", v)
	}
}

// checkLicence: the terms of the driver ask that they go with it, so they must be there and readable.
func checkLicence(s *subject, find finder) {
	there, good := "", false
	if e, err := s.tree.Stat(recipe.LicenceFile); err == nil { // where the driver's own is, others do not replace it
		if !isLicence(s.tree, e) {
			find(Error, e.Path, notLicence)
		}
		return
	}
	for _, dir := range []string{"licenses", "usr/share/licenses"} {
		list, err := s.tree.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, d := range list {
			e, err := s.tree.Stat(path.Join(dir, d.Name()))
			if err != nil || e.Kind == rootfs.Dir {
				continue
			}
			there = e.Path
			good = good || isLicence(s.tree, e)
		}
	}
	switch {
	case there == "":
		find(Error, "", "NVIDIA's licence is not in /licenses: its terms ask that it goes with the driver")
	case !good:
		find(Error, there, notLicence)
	}
}

const notLicence = "is not NVIDIA's licence, which all users can read: its terms ask that it goes with the driver"

// maxLicence bounds a licence. Those of Debian's packages have 60 kB.
const maxLicence = 4 << 20

func isLicence(tree *rootfs.Tree, e *rootfs.Entry) bool {
	if e.Kind != rootfs.File || e.Mode&0o444 != 0o444 || e.Size > maxLicence {
		return false
	}
	text, err := tree.ReadFile(e.Path)
	lower := strings.ToLower(string(text))
	return err == nil && strings.Contains(lower, "nvidia") && (strings.Contains(lower, "license") || strings.Contains(lower, "licence"))
}
