package verify

import (
	"path"
	"strings"

	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// checkKMM: an image for Kernel Module Management has the modules of its sets in the folders that KMM copies,
// with the indexes that modprobe reads, and the programs that KMM's pod runs in the image.
func checkKMM(s *subject, find finder) {
	list, err := s.tree.ReadDir(recipe.KMMDir)
	if err != nil || len(list) == 0 {
		return
	}
	if !s.tree.Exists("bin/cp") && !s.tree.Exists("usr/bin/cp") { // rule programs has sh and mkdir
		find(Error, "bin/cp", "is missing: KMM copies the modules with the image's own programs")
	}
	sets := map[string]ModuleSet{}
	for _, m := range s.sets {
		if m.Damage == "" {
			sets[m.Kernel] = m
		}
	}
	for _, d := range list {
		dir := path.Join(recipe.KMMDir, d.Name())
		m, ok := sets[d.Name()]
		if !ok {
			find(Error, dir, "has modules of a kernel that no set of the image is for")
			continue
		}
		delete(sets, d.Name())
		s.checkKMMFolder(dir, m, find)
	}
	for kernel, m := range sets {
		find(Error, path.Join(recipe.ModulesDir, m.Folder), "is for kernel %s, whose modules are not in /%s", kernel, recipe.KMMDir)
	}
}

// checkKMMFolder compares the modules of a kernel with those of their set.
func (s *subject) checkKMMFolder(dir string, m ModuleSet, find finder) {
	for _, index := range []string{"modules.dep", "modules.dep.bin"} {
		if e, ok := s.tree.Lstat(path.Join(dir, index)); !ok || e.Kind != rootfs.File || e.Size == 0 {
			find(Error, path.Join(dir, index), "is missing: modprobe finds no module without it")
		}
	}
	want := map[string]bool{}
	for _, i := range m.Modules {
		name := path.Join(dir, i.Name+".ko")
		want[name] = true
		if sum := s.sumOf(name); sum == "" || sum != s.sumOf(path.Join(recipe.ModulesDir, m.Folder, i.Name+".ko")) {
			find(Error, name, "is not the module of the set %s", m.Folder)
		}
	}
	list, _ := s.tree.ReadDir(dir) // checkKMM has read its name
	for _, d := range list {
		if name := path.Join(dir, d.Name()); strings.Contains(d.Name(), ".ko") && !want[name] {
			find(Error, name, "is no module of the set %s", m.Folder)
		}
	}
}

// sumOf is the digest of a file; "" if there is none.
func (s *subject) sumOf(name string) string {
	e, ok := s.tree.Lstat(name)
	if !ok || e.Kind != rootfs.File {
		return ""
	}
	sum, err := e.SHA256()
	if err != nil {
		return ""
	}
	return sum
}
