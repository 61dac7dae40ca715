package verify

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/elffile"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/kmod/kbuild"
)

func checkEntrypoint(s *subject) {
	command := slices.Concat(s.config.Config.Entrypoint, s.config.Config.Cmd)
	if len(command) == 0 {
		s.fail("", "the image starts nothing: set an entrypoint")
	} else if e := s.which(command[0]); e == nil {
		s.fail(command[0], "is what the image starts, but is not there or not executable")
	} else {
		s.checkProgram(e)
	}
	if s.which(recipe.EntrypointLink) == nil {
		s.fail(
			"",
			"nvidia-driver is not on PATH: the GPU Operator starts the image with that command",
		)
	}
	e := s.which(recipe.EntrypointName)
	if e == nil {
		return // not an image of this project
	}
	switch f, err := readELF(e); {
	case errors.Is(err, elffile.ErrMagic):
		s.fail(e.Path, "%v", err)
	case err == nil && f.Interp:
		s.fail(e.Path, "is not static: it would depend on the libraries of the base")
	}
	if s.which(probe) == nil {
		s.find(Note, probe, "is not there: %s", recipe.WithoutProbe)
	}
}

const probe = recipe.BinDir + "/" + recipe.ProbeName

// checkPrograms: the GPU Operator's startup probe and preStop run in the image; consumers run
// modprobe and ldconfig in it.
func checkPrograms(s *subject) {
	for _, name := range []string{"sh", "mkdir", "cat", "mv", "rm", "nvidia-smi", "ldconfig", "modprobe"} {
		s.checkOnPath(name, "")
	}
	for _, dir := range []string{"usr/bin", "usr/sbin", "bin", "sbin"} {
		e := s.at(dir + "/nvidia-smi")
		if e == nil {
			continue
		}
		if f, err := readELF(e); errors.Is(err, elffile.ErrMagic) || err == nil && f.Relocatable {
			s.fail(e.Path, "is no program: consumers run it to see whether the driver works")
		}
		return
	}
	s.fail(
		"",
		"nvidia-smi is in none of /usr/bin, /usr/sbin, /bin, /sbin, where consumers look for it",
	)
}

// checkOnPath checks that a program is on PATH and can be started; why ends the text about one that
// is not there.
func (s *subject) checkOnPath(name, why string) {
	if e := s.which(name); e == nil {
		s.fail("", "%s is not on PATH%s", name, why)
	} else {
		s.checkProgram(e)
	}
}

func (s *subject) checkProgram(e *rootfs.Entry) {
	if why := s.broken(e); why != "" {
		s.fail(e.Path, "%s", why)
	}
}

// broken is why a program cannot be started; "" for a script and for a whole ELF file for the
// image's processor.
func (s *subject) broken(e *rootfs.Entry) string {
	f, err := readELF(e)
	switch {
	case isScript(e):
		return ""
	case errors.Is(err, elffile.ErrMagic):
		return fmt.Sprintf("is neither a program nor a script: %v", err)
	case err != nil:
		return err.Error()
	case f.Machine != s.machine():
		return fmt.Sprintf("is for %s, the image for %s", f.Machine, s.config.Architecture)
	}
	return ""
}

// checkToolchain: an image that has to compile on the node needs what compiling takes, except the
// headers, which come from the node or its repositories.
func checkToolchain(s *subject) {
	if s.infoErr == nil && !s.info.Toolchain || s.infoErr != nil && s.hasModules() ||
		s.version == "" {
		return
	}
	const why = ": the image has no modules for every kernel and cannot compile them"
	if !slices.ContainsFunc(s.programDirs, s.hasCompiler) {
		s.fail("", "no C compiler is on PATH"+why)
	}
	s.checkOnPath("make", why)
	s.checkOnPath("ld", why)
}

// hasCompiler looks for one in a folder that can be started.
func (s *subject) hasCompiler(dir string) bool {
	return slices.ContainsFunc(s.below(dir), func(name string) bool {
		e := s.at(name)
		return kbuild.IsCompilerName(path.Base(name)) && isProgram(e) && s.broken(e) == ""
	})
}

func checkEnvironment(s *subject) {
	branch, _, _ := strings.Cut(s.version, ".")
	for _, c := range []struct{ name, of, want string }{
		{"DRIVER_VERSION", "the libraries are", s.version},
		{"DRIVER_BRANCH", "the libraries are of", branch},
		{"TARGETARCH", "the image is for", s.config.Architecture},
	} {
		if v := s.env(c.name); v != "" && v != c.want {
			s.fail("", "%s is %.100s, %s %s", c.name, v, c.of, c.want)
		}
	}
	if v := s.env("NVIDIA_VISIBLE_DEVICES"); v != "void" {
		s.find(
			Note,
			"",
			"NVIDIA_VISIBLE_DEVICES is %q: without \"void\" the container runtime may inject a driver into the driver's container",
			v,
		)
	}
}

// maxLicence bounds a licence. Those of Debian's packages have 60 kB.
const maxLicence = 4 << 20

// licence matches a text about NVIDIA's terms, in lower case.
var licence = regexp.MustCompile(`(?s)nvidia.*licen[sc]e|licen[sc]e.*nvidia`)

// checkLicence: the terms of the driver ask that they go with it, so they must be there and
// readable. In an image of this project they have one place. The free parts of the driver have
// licences of their own beside it, which name NVIDIA and do not replace it.
func checkLicence(s *subject) {
	all := []string{recipe.LicenceFile}
	if s.infoErr != nil && !s.tree.Exists(recipe.LicenceFile) {
		all = append(s.below("licenses"), s.below("usr/share/licenses")...)
	}
	there := ""
	for _, name := range all {
		e := s.at(name)
		if e == nil || e.Kind == rootfs.Dir {
			continue
		}
		there = e.Path
		text := strings.ToLower(string(s.text(name, maxLicence)))
		if e.Mode&0o444 == 0o444 && licence.MatchString(text) {
			return
		}
	}
	if there == "" {
		s.fail(
			"",
			"NVIDIA's licence is not in /licenses: its terms ask that it goes with the driver",
		)
		return
	}
	s.fail(
		there,
		"is not NVIDIA's licence, which all users can read: its terms ask that it goes with the driver",
	)
}

// checkGuest: a vGPU guest without a working licence daemon becomes slow without an error, and an
// image without the label may be published by mistake.
func checkGuest(s *subject) {
	label := s.config.Config.Labels[recipe.LabelVGPU]
	switch daemon := s.which(recipe.Gridd); {
	case label != "" && daemon == nil:
		s.fail(
			recipe.Gridd,
			"is not there, or cannot be executed: a vGPU guest gets no licence without it",
		)
	case label == "" && daemon != nil:
		s.find(
			Warning,
			recipe.Gridd,
			"is the licence daemon of vGPU guests, but the image has no label %s: nothing keeps it from public registries",
			recipe.LabelVGPU,
		)
	}
}
