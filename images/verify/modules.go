package verify

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/kmod"
)

// checkModules: a set that is damaged, or for another driver, is of no use to a node. What else is
// right about a set, the build has seen to: only images of driver-build have sets.
func checkModules(s *subject) {
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
		for _, i := range m.Modules {
			name := m.path(i.Name + ".ko")
			if i.damage != nil {
				s.fail(name, "%v", i.damage)
				continue
			}
			s.checkModule(name, m.Kernel, i.info)
		}
		for _, o := range m.Omitted {
			s.find(Warning, m.path(), "has no %s for kernel %s: %s", o.Module, m.Kernel, o.Reason)
		}
	}
	s.checkInstalled()
	s.checkPrecompiled()
}

// checkPrecompiled: what the description promises must be there, or the node finds it out.
func (s *subject) checkPrecompiled() {
	if s.infoErr != nil {
		return // checkDescription says so
	}
	for _, p := range s.info.Precompiled {
		if !slices.ContainsFunc(s.sets, func(m ModuleSet) bool {
			return m.Kernel == p.Kernel && m.Flavour == p.Flavour
		}) {
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

// checkModuleSignatures: a signature that is wrong is refused by any kernel, one that is missing by
// those that enforce.
func checkModuleSignatures(s *subject) {
	for _, m := range s.sets {
		s.checkDistribution(m)
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

// checkDistribution compares the signatures of a set with what the description says of its packages.
// Only a kernel of the distribution's has the key and can check the signatures themselves.
func (s *subject) checkDistribution(m ModuleSet) {
	at := slices.IndexFunc(s.info.Precompiled, func(p driverinfo.Precompiled) bool {
		return p.Kernel == m.Kernel && p.Flavour == m.Flavour && p.Package != ""
	})
	system, err := distros.Lookup(s.info.OS)
	if at < 0 || err != nil {
		return
	}
	from := s.info.Precompiled[at].Package
	id, _ := system.OSRelease()
	for _, i := range m.Modules {
		key, known := distros.FindModuleKey(i.Signer)
		if i.signed && (!known || key.System != id) {
			s.find(
				Warning,
				m.path(i.Name+".ko"),
				"is of the package %s and names %q as its signer, which is no key of %s known here: a kernel with "+
					"Secure Boot may refuse it",
				from,
				i.Signer,
				id,
			)
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
