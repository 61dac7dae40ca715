package buildtree

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	continuity "github.com/containerd/continuity/fs"
	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/lazyregexp"
	"github.com/driver-container/driver-container/kmod"
)

// splitPath matches the path of the second half of a split tree in the Makefile of the first half:
// "include /usr/src/linux-headers-…-common/Makefile" since Debian 10, "MAKEARGS := -C
// /usr/src/linux-headers-…-common O=…" before.
var splitPath = lazyregexp.New(
	`(?m)^(?:include\s+|MAKEARGS\s*:?=\s*-C\s+)(/[^\s$]+?)(?:/Makefile)?(?:\s|$)`,
)

// findSource returns the folder with the plain headers. place is the path of the build folder,
// relative to the root.
func (h Headers) findSource(buildDir string) (string, error) {
	build := strings.TrimPrefix(h.Build, h.RootDir)
	candidates := []string{build, strings.TrimSuffix(buildDir, "/build") + "/source"}
	if m := splitPath().FindSubmatch(bounded.Head(filepath.Join(h.Build, "Makefile"), 1<<20)); m != nil {
		candidates = append(candidates, string(m[1]))
	}
	// kbuild leaves this link in a folder given with O=
	candidates = append(candidates, build+"/source")
	for _, c := range candidates {
		if h.has(c, "include/linux/module.h") && h.has(c, "Makefile") {
			return kmod.Within(h.RootDir, c)
		}
	}
	return "", errors.New(
		"the part with the plain headers (include/linux) is missing: install the package that this one depends on " +
			"(Debian: linux-headers-…-common)",
	)
}

// absoluteSource matches paths below /usr/src that the tree's own Makefile names.
var absoluteSource = lazyregexp.New(`/usr/src/([A-Za-z0-9][A-Za-z0-9._+~-]*)`)

// Link prepares root, in which the compile will run, for headers in another root: the trees of some
// distributions name their other half by an absolute path (Debian: "include
// /usr/src/linux-headers-…-common/Makefile"). Link creates the missing links below root's usr/src
// and lib/modules/<release>, never replaces anything, and returns the links that it created, so
// that the caller can remove them. For headers that are already in root it does nothing.
func (h Headers) Link(root string) (made []string, err error) {
	if filepath.Clean(h.RootDir) == filepath.Clean(root) {
		return nil, nil
	}
	links := map[string]string{
		"/lib/modules/" + h.Release + "/build":  h.Build,
		"/lib/modules/" + h.Release + "/source": h.Source,
	}
	names := []string{filepath.Base(h.Build), filepath.Base(h.Source)}
	for _, m := range absoluteSource().FindAllSubmatch(bounded.Head(filepath.Join(h.Build, "Makefile"), 1<<20), 64) {
		names = append(names, string(m[1]))
	}
	for _, name := range names {
		target, err := kmod.Within(h.RootDir, "usr/src/"+name)
		if err != nil {
			continue
		}
		links["/usr/src/"+name] = target
	}
	for _, path := range slices.Sorted(maps.Keys(links)) {
		link, err := linkIn(root, path, links[path])
		// The host's folder is mounted there, read-only. Nothing that is compiled needs the link.
		readOnly := errors.Is(err, unix.EROFS) && strings.HasPrefix(path, "/lib/modules/")
		if readOnly || errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return made, fmt.Errorf(
				"link the headers of kernel %s from %s: %w",
				h.Release,
				h.Origin,
				err,
			)
		}
		made = append(made, link)
	}
	return made, nil
}

// linkIn makes a link in a root, and returns its path. The root's own links (lib -> usr/lib) are
// followed for the folders; the last part is the new link.
func linkIn(root, path, target string) (link string, err error) {
	dir, err := continuity.RootPath(root, filepath.Dir(path))
	if err != nil {
		return "", err
	}
	err = os.MkdirAll(dir, 0o755)
	if err != nil {
		return "", err
	}
	link = filepath.Join(dir, filepath.Base(path))
	return link, os.Symlink(target, link)
}
