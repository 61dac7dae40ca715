package verify

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/kmod/kbuild"
)

// checkModules: what the description promises must be there and whole, or the node finds it out.
func checkModules(s *subject) {
	described := s.infoErr == nil
	for _, m := range s.sets {
		if m.Damage != "" {
			s.fail(m.path(), "%s", m.Damage)
			continue
		}
		if m.Driver != s.version || m.Arch != s.config.Architecture {
			s.fail(
				m.path(),
				"has modules of driver %s for %s, the image has %s for %s",
				m.Driver,
				m.Arch,
				s.version,
				s.config.Architecture,
			)
		}
		s.checkSet(m)
		s.checkCompanions(m)
		if described &&
			!slices.Contains(
				s.info.Precompiled,
				driverinfo.Precompiled{Kernel: m.Kernel, Flavour: m.Flavour},
			) {
			s.find(Note, m.path(), "is not named in the image's description")
		}
	}
	s.checkInstalled()
	if !described {
		return // checkDescription says so
	}
	for _, p := range s.info.Precompiled {
		if !slices.ContainsFunc(
			s.sets,
			func(m ModuleSet) bool { return m.Kernel == p.Kernel && m.Flavour == p.Flavour },
		) {
			s.fail(
				driverinfo.Path,
				"names %s modules for kernel %s, which are not in /%s or are damaged",
				p.Flavour,
				p.Kernel,
				recipe.ModulesDir,
			)
		}
	}
}

// checkCompanions: a set was compiled with each companion of the image that fits its flavour. A
// companion that does not compile for the kernel is missing, which the set itself says.
func (s *subject) checkCompanions(m ModuleSet) {
	for _, c := range s.info.Companions {
		id := kbuild.Companion{Name: c.Name, Version: c.Version, Digest: c.Digest}.ID()
		if c.Fits(m.Flavour) && !slices.Contains(m.Companions, id) {
			s.fail(
				m.path(),
				"has neither %s %s nor the reason why it was left out: the image's description names it",
				c.Name,
				c.Version,
			)
		}
	}
	for _, o := range m.Omitted {
		s.find(Warning, m.path(), "has no %s for kernel %s: %s", o.Module, m.Kernel, o.Reason)
	}
}

// checkModuleSignatures: a signature that is wrong is refused by any kernel, one that is missing by
// those that enforce.
func checkModuleSignatures(s *subject) {
	for _, m := range s.sets {
		signed := 0
		for _, i := range m.Modules {
			if i.signed {
				signed++
			}
			if i.wrong != nil {
				s.fail(m.path(i.Name+".ko"), "%v", i.wrong)
			}
		}
		switch {
		case s.wantSigned || m.Damage != "" || signed == len(m.Modules):
		case signed == 0:
			s.find(
				Note,
				m.path(),
				"is not signed: kernels with Secure Boot or module.sig_enforce refuse it",
			)
		default:
			s.fail(m.path(), "has %d modules, of which %d are signed", len(m.Modules), signed)
		}
	}
}

// checkSet compares the modules of a set with the kernel that it is for, with the driver and with
// each other.
func (s *subject) checkSet(m ModuleSet) {
	have := map[string]bool{}
	exports := map[string]bool{}
	for _, i := range m.Modules {
		have[kmod.ModuleName(i.Name)] = true
		for _, name := range i.exports {
			exports[name] = true
		}
	}
	for _, name := range driverinfo.RequiredModules() {
		name = kmod.ModuleName(name)
		if !have[name] {
			s.fail(m.path(), "has no module %s", name)
		}
	}
	for _, i := range m.Modules {
		name := m.path(i.Name + ".ko")
		if i.damage != nil {
			s.fail(name, "%v", i.damage)
			continue
		}
		s.checkModule(name, m.Kernel, i.info)
		for _, need := range i.info.Depends {
			if strings.HasPrefix(need, "nvidia") && !have[need] {
				s.fail(name, "needs the module %s, which its set has not", need)
			}
		}
		for _, symbol := range i.undefined {
			if !exports[symbol] {
				s.fail(name, "needs %s, which no module of its set has", symbol)
			}
		}
	}
}

// checkModule compares what a module says of itself with its place. A companion has a version of
// its own.
func (s *subject) checkModule(file, release string, info kmod.Info) {
	if info.Release() != release {
		s.fail(file, "is for kernel %q (vermagic), its folder for %s", info.Release(), release)
	}
	base, _, _ := strings.Cut(path.Base(file), ".ko")
	if info.Version != "" && info.Version != s.version &&
		!slices.Contains(driverinfo.Companions(), base) {
		s.fail(file, "is of driver %s, the image has %s", info.Version, s.version)
	}
	if info.Name != kmod.ModuleName(base) {
		s.fail(file, "is the module %s", info.Name)
	}
}

// installedName matches modules of the driver where distributions install them; the group is the
// kernel's release.
var installedName = regexp.MustCompile(
	`^(?:usr/)?lib/modules/([^/]+)/.*/nvidia[a-z_-]*\.ko(?:\.gz|\.xz|\.zst)?$`,
)

// maxInstalled bounds how many of them are read.
const maxInstalled = 256

// checkInstalled checks modules in the folders of kernels, as other images than ours have them.
func (s *subject) checkInstalled() {
	left := maxInstalled
	for _, e := range s.all {
		m := installedName.FindStringSubmatch(e.Path)
		if m == nil || e.Kind != rootfs.File || left == 0 {
			continue
		}
		left--
		r, err := e.Open()
		var info kmod.Info
		if err == nil {
			info, err = kmod.InfoOf("/"+e.Path, r, r.Size())
		}
		if err != nil {
			s.fail(e.Path, "%v", err)
		} else {
			s.checkModule(e.Path, m[1], info)
		}
	}
}

// checkKMM: an image for Kernel Module Management has the modules of its sets in the folders that
// KMM copies, with the indexes that modprobe reads, and the programs that KMM's pod runs in the
// image.
func checkKMM(s *subject) {
	list := s.below(recipe.KMMDir)
	if len(list) == 0 {
		return
	}
	if !s.tree.Exists("bin/cp") && !s.tree.Exists("usr/bin/cp") { // rule programs has sh and mkdir
		s.fail("bin/cp", "is missing: KMM copies the modules with the image's own programs")
	}
	sets := map[string]ModuleSet{}
	for _, m := range s.sets {
		if m.Damage == "" {
			sets[m.Kernel] = m
		}
	}
	for _, dir := range list {
		m, ok := sets[path.Base(dir)]
		if !ok {
			s.fail(dir, "has modules of a kernel that no set of the image is for")
			continue
		}
		delete(sets, m.Kernel)
		s.checkKMMFolder(dir, m)
	}
	for kernel, m := range sets {
		s.fail(m.path(), "is for kernel %s, whose modules are not in /%s", kernel, recipe.KMMDir)
	}
}

// checkKMMFolder compares the modules of a kernel with those of their set.
func (s *subject) checkKMMFolder(dir string, m ModuleSet) {
	for _, index := range []string{"modules.dep", "modules.dep.bin"} {
		if e, ok := s.tree.Lstat(path.Join(dir, index)); !ok || e.Kind != rootfs.File ||
			e.Size == 0 {
			s.fail(path.Join(dir, index), "is missing: modprobe finds no module without it")
		}
	}
	want := map[string]bool{}
	for _, i := range m.Modules {
		name := path.Join(dir, i.Name+".ko")
		want[name] = true
		if sum := s.sumOf(name); sum == "" || sum != s.sumOf(m.path(i.Name+".ko")) {
			s.fail(name, "is not the module of the set %s", m.Folder)
		}
	}
	for _, name := range s.below(dir) {
		if strings.Contains(path.Base(name), ".ko") && !want[name] {
			s.fail(name, "is no module of the set %s", m.Folder)
		}
	}
}

// sumOf is the digest of a file; "" if there is none.
func (s *subject) sumOf(name string) (sum string) {
	if e, ok := s.tree.Lstat(name); ok {
		sum, _ = e.SHA256() // "" of what is no file
	}
	return sum
}
