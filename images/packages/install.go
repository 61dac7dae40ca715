package packages

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

var unwantedFolders = []string{
	"usr/share/man/", "usr/share/info/", "usr/share/lintian/", "usr/share/locale/", "usr/share/bug/", "usr/share/doc-base/", "usr/share/gcc/python/", "usr/share/gdb/",
}

// unwanted reports whether a packaged file has no use in a driver container. Copyright files and
// licences stay.
func unwanted(p string) bool {
	return recipe.HasPrefix(unwantedFolders, p) ||
		strings.HasPrefix(p, "usr/share/doc/") && path.Base(p) != "copyright"
}

// unwanted is unwanted for a file of this package.
func (u Unpacked) unwanted(p string) bool {
	return unwanted(p) || u.Distroless && strings.Contains(p, "/gconv/")
}

// Install lays packages over a base and records them as installed.
func Install(d distros.Distro, tree, lower *rootfs.Tree, all []Unpacked, when time.Time) error {
	if err := Place(tree, all); err != nil {
		return err
	}
	return managerOf(d).record(tree, lower, all, when)
}

// LinkFolders makes the folders of a root lead where those of the base lead. On some systems lib is
// usr/lib, and var/run is run; scripts of packages make these links, or the system's installer.
func LinkFolders(tree, base *rootfs.Tree) error {
	for _, dir := range []string{"bin", "sbin", "lib", "lib64", "var/run", "var/lock"} {
		e, ok := base.Lstat(dir)
		if !ok || e.Kind != rootfs.Link {
			continue
		}
		if err := tree.AddLink(dir, e.Target); err != nil {
			return err
		}
		if err := tree.AddDir(dir, 0o755); err != nil { // where it leads
			return err
		}
	}
	return nil
}

// Configure adds repositories to those that the image itself knows.
func Configure(d distros.Distro, tree *rootfs.Tree, all []matrix.Repository) error {
	return managerOf(d).configure(tree, all)
}

// Place lays packages over a base as their package manager would without running their scripts, and
// notes the paths of each.
func Place(tree *rootfs.Tree, all []Unpacked) error {
	for i, u := range all {
		for _, e := range u.Tree.All() {
			if u.unwanted(e.Path) {
				continue
			}
			all[i].list = append(all[i].list, "/"+e.Path)
			if err := tree.AddEntry(e); err != nil {
				return fmt.Errorf("install %s: %w", u.Name, err)
			}
		}
	}
	return nil
}

// PlaceHeaders lays the packages with the headers of a kernel over a base, and makes the link by which
// modules are built: with all rpm kernels it is in the kernel's own package.
func PlaceHeaders(d distros.Distro, tree *rootfs.Tree, release string, all []Unpacked) error {
	err := Place(tree, all)
	if err != nil {
		return err
	}
	link := "lib/modules/" + release + "/build"
	if tree.Exists(link) {
		return nil
	}
	for _, dir := range d.BuildDirs(release) {
		if tree.Exists(dir) {
			return tree.AddLink(link, "/"+dir)
		}
	}
	return nil
}

// removeOld deletes the files of a replaced version that no new package put there again.
func removeOld(tree, lower *rootfs.Tree, list []string) error {
	for _, name := range list {
		p, err := rootfs.Clean(strings.TrimPrefix(strings.TrimSpace(name), "/"))
		if err != nil || p == "." {
			continue
		}
		dir, err := tree.Resolve(path.Dir(p))
		if err != nil {
			return err
		}
		p = path.Join(dir, path.Base(p))
		if _, ok := lower.Lstat(p); !ok || tree.Has(p) {
			continue
		}
		// also /lib, which packages list as a folder and which is a link on a merged-/usr base
		e, _ := lower.Stat(p)
		if e != nil && e.Kind == rootfs.Dir {
			continue
		}
		if err := tree.Delete(p); err != nil {
			return err
		}
	}
	return nil
}

// AddLinks makes the links that are not there yet.
func AddLinks(tree *rootfs.Tree, links map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(links)) {
		if !tree.Exists(name) {
			if err := tree.AddLink(name, links[name]); err != nil {
				return err
			}
		}
	}
	return nil
}
