// Package headersimage reads what an image can compile kernel modules for: OpenShift's Driver
// Toolkit, a developer container, or any image with the headers of kernels and their compiler.
//
// It executes nothing of the image and compiles nothing: package images does that, in a runner.
package headersimage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/distros/osrelease"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/kmod/kbuild"
)

// ErrUnsuitable means that an image cannot compile modules: it lacks headers, a compiler or make,
// or what it says of itself cannot be read.
var ErrUnsuitable = failure.New(failure.Usage, "the image cannot compile kernel modules")

// Contents is what an image has for compiling modules.
type Contents struct {
	Kernels   []Kernel `json:"kernels"`   // with complete headers; the newest first
	Broken    []Broken `json:"broken"`    // headers that cannot be used
	Compilers []string `json:"compilers"` // paths of programs that can be a C compiler
	Make      bool     `json:"make"`      // the image has make
	System    System   `json:"system"`
}

// Kernel is a kernel whose headers an image has. Headers is the folder with them, Version the
// release of kernel.org if the headers say it, and Default is set if the image names the kernel as
// its own.
type Kernel struct {
	distros.Kernel
	// that built the kernel: "gcc-12 (Debian 12.2.0-14) 12.2.0"; "" if unknown
	Compiler string `json:"compiler"`
}

// systemVersion is a version that may become part of a message and of a tag.
var systemVersion = regexp.MustCompile(`^[0-9][0-9.]{0,31}$`)

// System is how an image names its operating system in os-release. Both are "" in an image without
// version.
type System struct {
	ID        string `json:"id"`
	VersionID string `json:"versionID"`
}

// Broken is a kernel whose headers cannot be used.
type Broken struct {
	Kernel string `json:"kernel"` // its release, or the folder if that does not say it
	Reason string `json:"reason"`
}

// contentsVersion is part of the key under which the cache keeps the contents. Raise it when Read
// finds something else.
const contentsVersion = "3"

// Cached returns what the cache has of an image, by its digest.
func Cached(store *fetch.Store, digest string) (t Contents, ok bool) {
	_, ok = store.Lookup("headers", cacheKey(digest), &t)
	return t, ok
}

func cacheKey(digest string) string {
	return strings.TrimPrefix(digest, "sha256:") + "-" + contentsVersion
}

// Read finds the kernels of an image for an architecture, and keeps them in the cache by the
// image's digest. Content that no image has is an error of package rootfs.
func Read(
	ctx context.Context,
	store *fetch.Store,
	img v1.Image,
	digest, arch string,
	step *progress.Step,
) (t Contents, err error) {
	spool, err := rootfs.NewSpool(store.Dir())
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, spool.Close()) }()
	tree, err := layer.Flatten(ctx, img, spool, isFact, step)
	if err != nil {
		return t, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return t, fmt.Errorf("configuration of the image: %w", err)
	}
	t, err = read(tree, arch)
	if err != nil {
		return t, err
	}
	t.findPrograms(tree, SearchPath(config.Config.Env))
	// without it a hint is missing
	id, version, _ := osrelease.Read(tree.OpenFS())
	if systemVersion.MatchString(version) {
		t.System = System{id, version}
	}
	return t, store.Note("headers", cacheKey(digest), "", t)
}

// maxSearchPath bounds the PATH of an image, which becomes part of a command's environment.
const maxSearchPath = 4096 // bytes

// SearchPath returns where programs of an image are, from the environment in its configuration: the
// image's own PATH, then the usual folders.
func SearchPath(env []string) string {
	var dirs []string
	for _, v := range env {
		own, ok := strings.CutPrefix(v, "PATH=")
		if !ok || len(own) > maxSearchPath || strings.ContainsRune(own, 0) {
			continue
		}
		dirs = filepath.SplitList(own)
	}
	var all []string
	for _, dir := range append(dirs, filepath.SplitList(recipe.DefaultPath)...) {
		dir = path.Clean(dir)
		if path.IsAbs(dir) && !slices.Contains(all, dir) {
			all = append(all, dir)
		}
	}
	return strings.Join(all, ":")
}

// maxCompilers bounds how many programs are listed.
const maxCompilers = 32

func (t *Contents) findPrograms(tree *rootfs.Tree, searchPath string) {
	seen := map[string]bool{}
	for _, dir := range filepath.SplitList(searchPath) {
		at, err := tree.Resolve(strings.Trim(dir, "/"))
		if err != nil || seen[at] {
			continue // not every folder of a search path exists, and /bin can be a link to /usr/bin
		}
		seen[at] = true
		list, err := tree.ReadDir(at)
		if err != nil {
			continue
		}
		for _, e := range list {
			program := path.Join(dir, e.Name())
			if !tree.Exists(program) {
				continue // a link that leads nowhere
			}
			t.Make = t.Make || e.Name() == "make"
			if kbuild.IsCompilerName(e.Name()) && len(t.Compilers) < maxCompilers {
				t.Compilers = append(t.Compilers, program)
			}
		}
	}
}

// Check returns an error of ErrUnsuitable if no modules can be compiled in the image.
func (t Contents) Check() error {
	const most = 5 // kernels that cannot be used, in an error
	var broken []string
	for _, b := range t.Broken[:min(len(t.Broken), most)] {
		broken = append(broken, b.Kernel+": "+b.Reason)
	}
	switch {
	case len(t.Kernels) == 0 && len(broken) > 0:
		return fmt.Errorf(
			"%w: it has complete headers of no kernel: %s",
			ErrUnsuitable,
			strings.Join(broken, "; "),
		)
	case len(t.Kernels) == 0:
		return fmt.Errorf(
			"%w: it has headers of no kernel (no include/generated/utsrelease.h below lib/modules, usr/src or another folder)",
			ErrUnsuitable,
		)
	case len(t.Compilers) == 0:
		compiler, _, _ := strings.Cut(t.Kernels[0].Compiler, ",")
		return fmt.Errorf(
			"%w: it has no C compiler: install the one of its kernels into the image, such as %s",
			ErrUnsuitable,
			cmp.Or(compiler, "gcc"),
		)
	case !t.Make:
		return fmt.Errorf("%w: it has no make: install it into the image", ErrUnsuitable)
	}
	return nil
}
