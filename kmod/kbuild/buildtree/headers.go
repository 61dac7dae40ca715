// Package buildtree finds the prepared tree of a kernel, which modules are compiled against: the
// headers, in the layouts of all distributions, in one of several file systems. It also copies and
// links trees from another file system. It runs no program and makes no module.
package buildtree

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/lazyregexp"
	"github.com/driver-container/driver-container/kmod"
)

// Root is a file system that may have headers, such as the image ("/") or the host
// ("/proc/1/root").
type Root struct {
	Dir  string
	Name string // for people: "image", "host"
}

// Headers is a prepared kernel tree: what a module for the kernel is compiled against. Its paths
// have no links in them and are valid for this process.
type Headers struct {
	Release string // in the form of uname -r: "6.1.0-38-amd64"
	Build   string // the folder with .config, Module.symvers and the generated headers
	// the folder with the top Makefile and the plain headers; equals Build unless the tree is split
	// (Debian, SUSE)
	Source string
	// CompilerText is the first line of the kernel's compiler in its configuration, "gcc-12 (Debian
	// 12.2.0-14) 12.2.0"; "" when unknown.
	CompilerText string
	Origin       string // Root.Name of the root that has them
	RootDir      string // Root.Dir of it
}

// NoHeadersError says that no tree for the release was found, and why each candidate was refused.
type NoHeadersError struct {
	Release  string
	Searched []string // "image: /usr/src/linux-headers-6.1.0-38-amd64: does not exist"
}

func (e *NoHeadersError) Error() string {
	return fmt.Sprintf(
		"no headers for kernel %s: %s; install the package with the headers of exactly this kernel on the host, "+
			"or put it into the image",
		e.Release,
		strings.Join(e.Searched, "; "),
	)
}

// Names returns the folders, relative to a root, where distributions keep a kernel's tree, best
// first: the link that every distribution makes, then the names in Debian and Ubuntu, Red Hat, and
// plain source installations.
func Names(release string) []string {
	return []string{
		"lib/modules/" + release + "/build",
		"usr/lib/modules/" + release + "/build",
		"usr/src/linux-headers-" + release,
		"usr/src/kernels/" + release,
		"usr/src/linux-" + release,
	}
}

// releaseName matches valid kernel releases. A release becomes part of paths.
var releaseName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._+~-]{0,127}$`)

// Find looks for the tree of the release in roots, in their order. It follows links inside each
// root as chroot(2) would. A tree for another kernel, an unprepared one, and one with parts missing
// do not count. The error is a *NoHeadersError.
func Find(release string, roots []Root) (Headers, error) {
	missing := &NoHeadersError{Release: release}
	if !releaseName().MatchString(release) {
		missing.Searched = []string{"this is no kernel release"}
		return Headers{}, missing
	}
	for _, root := range roots {
		root.Dir = filepath.Join("/", root.Dir) // "" is "/"
		for _, buildDir := range Names(release) {
			h, err := headersAt(root, buildDir, release)
			if err == nil {
				return h, nil
			}
			// Several names lead to the same tree (lib is a link to usr/lib): report it once.
			if text := root.Name + ": " + err.Error(); !slices.Contains(missing.Searched, text) {
				missing.Searched = append(missing.Searched, text)
			}
		}
	}
	if len(roots) == 0 {
		missing.Searched = []string{"there is no place to look in"}
	}
	return Headers{}, missing
}

func headersAt(root Root, buildDir, release string) (Headers, error) {
	dir, err := kmod.Within(root.Dir, buildDir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Headers{}, fmt.Errorf("/%s: does not exist", buildDir)
	case err != nil:
		return Headers{}, fmt.Errorf("/%s: %w", buildDir, err)
	}
	h := Headers{Release: release, Build: dir, Origin: root.Name, RootDir: root.Dir}
	inside := "/" + strings.TrimPrefix(
		strings.TrimPrefix(dir, strings.TrimSuffix(root.Dir, "/")),
		"/",
	)
	if err := h.check(); err != nil {
		return Headers{}, fmt.Errorf("%s: %w", inside, err)
	}
	h.Source, err = h.findSource(buildDir)
	if err != nil {
		return Headers{}, fmt.Errorf("%s: %w", inside, err)
	}
	h.CompilerText = h.compilerText()
	return h, nil
}

// check checks that the build folder is complete and for this release.
func (h Headers) check() error {
	found := h.release()
	switch {
	case found == "":
		return errors.New("is not a prepared kernel tree (no include/generated/utsrelease.h)")
	case found != h.Release:
		return fmt.Errorf("is for kernel %s", found)
	}
	for _, name := range []string{"include/generated/autoconf.h", "include/config/auto.conf", "Module.symvers", "scripts/mod/modpost"} {
		if !h.has(strings.TrimPrefix(h.Build, h.RootDir), name) {
			return fmt.Errorf(
				"%s is missing: the headers are installed only in part (Debian and Ubuntu: is the linux-kbuild package there?)",
				name,
			)
		}
	}
	return nil
}

// has reports whether a folder of the headers' root has a file.
func (h Headers) has(dir, name string) bool {
	path, err := kmod.Within(h.RootDir, filepath.Join(dir, name))
	return err == nil && kmod.IsFile(path)
}

var utsRelease = lazyregexp.New(`(?m)^#define UTS_RELEASE "([^"]*)"`)

// release returns the release that modules of this tree will carry. utsrelease.h decides, because
// vermagic is made from it: Debian's kernel.release has the upstream version only ("6.1.192" for
// 6.1.0-56-amd64).
func (h Headers) release() string {
	for _, name := range []string{"include/generated/utsrelease.h", "include/linux/utsrelease.h"} {
		if m := utsRelease().FindSubmatch(bounded.Head(filepath.Join(h.Build, name), 64<<10)); m != nil {
			return string(m[1])
		}
	}
	return strings.TrimSpace(
		string(bounded.Head(filepath.Join(h.Build, "include/config/kernel.release"), 1<<10)),
	)
}

var linuxCompiler = lazyregexp.New(`(?m)^#define LINUX_COMPILER "([^"]*)"`)

// compilerText returns CONFIG_CC_VERSION_TEXT (since 5.8), or else LINUX_COMPILER of compile.h.
func (h Headers) compilerText() string {
	config, _ := h.Config("CONFIG_CC_VERSION_TEXT") //nolint:errcheck // the next file may say it
	if text := config["CONFIG_CC_VERSION_TEXT"]; text != "" {
		return text
	}
	if m := linuxCompiler().FindSubmatch(bounded.Head(filepath.Join(h.Build, "include/generated/compile.h"), 64<<10)); m != nil {
		return string(m[1])
	}
	return ""
}

// maxConfig bounds the file with a kernel's options, in bytes.
const maxConfig = 8 << 20

// Config returns the named options that are set in the kernel's configuration, by name, without
// quotes: "y", "sha256".
func (h Headers) Config(names ...string) (map[string]string, error) {
	text, err := bounded.Text(filepath.Join(h.Build, "include/config/auto.conf"), maxConfig)
	if err != nil {
		return nil, fmt.Errorf("read the configuration of kernel %s: %w", h.Release, err)
	}
	values := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if ok && slices.Contains(names, name) {
			values[name] = strings.Trim(value, `"`)
		}
	}
	return values, nil
}
