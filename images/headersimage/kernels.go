package headersimage

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/osrelease"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/images/strictjson"
	"github.com/driver-container/driver-container/kmod/kbuild/buildtree"
)

// releaseFile is where a Driver Toolkit names its kernels.
const releaseFile = "etc/driver-toolkit-release.json"

// Bounds of what is read of an image.
const (
	maxReleaseFile = 64 << 10 // bytes; toolkits have 150
	maxTrees       = 64       // folders with headers; a Driver Toolkit has two or three
	maxHeader      = 64 << 10 // bytes of a generated header; kernels have 200
	maxConfig      = 8 << 20  // bytes of a kernel's configuration; kernels have 300 KB
)

// The files of headers that say which kernel they are for and how it was built.
const (
	utsRelease    = "include/generated/utsrelease.h"
	autoConf      = "include/config/auto.conf"
	kernelRelease = "include/config/kernel.release"
	compileHeader = "include/generated/compile.h"
)

// needed are files without which nothing compiles against headers.
var needed = []string{
	"include/generated/autoconf.h",
	autoConf,
	"Module.symvers",
	"scripts/mod/modpost",
}

// isFact says which files of an image are read; of all others only the names matter.
func isFact(name string) bool {
	if name == releaseFile || slices.Contains(osrelease.Files(), name) {
		return true
	}
	return slices.ContainsFunc(
		[]string{utsRelease, autoConf, kernelRelease, compileHeader},
		func(suffix string) bool {
			return strings.HasSuffix(name, "/"+suffix)
		},
	)
}

var (
	releaseText  = regexp.MustCompile(`(?m)^#define UTS_RELEASE "([^"\n]*)"`)
	compilerText = regexp.MustCompile(
		`(?m)^(?:CONFIG_CC_VERSION_TEXT=|#define LINUX_COMPILER )"([^"\n]{1,300})"`,
	)
)

// configOfArch is the option of a kernel's configuration that says its architecture.
var configOfArch = map[string]string{"amd64": "CONFIG_X86_64=y", "arm64": "CONFIG_ARM64=y"}

// read finds the kernels in a tree.
func read(tree *rootfs.Tree, arch string) (t Contents, err error) {
	own, err := named(tree)
	if err != nil {
		return t, err
	}
	found := 0
	for _, e := range tree.All() {
		dir, ok := strings.CutSuffix(e.Path, "/"+utsRelease)
		if !ok {
			continue
		}
		if found++; found > maxTrees {
			return t, fmt.Errorf(
				"%w: the image has headers of more than %d kernels",
				rootfs.ErrTooLarge,
				maxTrees,
			)
		}
		k, reason := kernelIn(tree, dir, arch)
		if reason != "" {
			t.Broken = append(t.Broken, Broken{k.Release, reason})
			continue
		}
		k.Default = slices.ContainsFunc(
			own,
			func(name string) bool { return isNamed(k.Release, name) },
		)
		t.Kernels = append(t.Kernels, k)
	}
	slices.SortStableFunc(
		t.Kernels,
		func(a, b Kernel) int { return distros.CompareReleases(b.Release, a.Release) },
	)
	t.Kernels = slices.CompactFunc(
		t.Kernels,
		func(a, b Kernel) bool { return a.Release == b.Release },
	)
	for _, name := range own {
		has := slices.ContainsFunc(
			t.Kernels,
			func(k Kernel) bool { return isNamed(k.Release, name) },
		)
		if !has &&
			!slices.ContainsFunc(t.Broken, func(b Broken) bool { return isNamed(b.Kernel, name) }) {
			t.Broken = append(
				t.Broken,
				Broken{name, "/" + releaseFile + " names it, and the image has no headers of it"},
			)
		}
	}
	return t, nil
}

// named reads the kernels that a Driver Toolkit names as its own; other images have no such file.
// One that cannot be read is an error of ErrUnsuitable: the image is damaged.
func named(tree *rootfs.Tree) (releases []string, err error) {
	e, err := tree.Stat(releaseFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	releases, err = readNamed(e)
	if err != nil {
		return nil, fmt.Errorf("%w: /%s cannot be read: %v", ErrUnsuitable, releaseFile, err) //nolint:errorlint // the image is wrong, not a flag
	}
	return releases, nil
}

func readNamed(e *rootfs.Entry) (releases []string, err error) {
	content, err := e.Open()
	if err != nil {
		return nil, err
	}
	data, err := bounded.Read(content, maxReleaseFile)
	if err != nil {
		return nil, err
	}
	says, err := strictjson.Decode[struct {
		Kernel   string `json:"KERNEL_VERSION"`
		RTKernel string `json:"RT_KERNEL_VERSION"`
	}](data)
	for _, release := range []string{says.Kernel, says.RTKernel} {
		if release != "" {
			releases = append(releases, release)
			err = errors.Join(err, recipe.CheckRelease(release))
		}
	}
	return releases, err
}

// isNamed says whether a kernel is the one that a Driver Toolkit names. Real-time kernels of RHEL 9
// have "+rt" at the end of their release, which the version of their package lacks.
func isNamed(kernel, name string) bool { return kernel == name || kernel == name+"+rt" }

// kernelIn reads the headers in a folder. reason is why they cannot be used.
func kernelIn(tree *rootfs.Tree, dir, arch string) (k Kernel, reason string) {
	k.Release = "/" + dir
	k.Headers = "/" + dir
	text := head(tree, path.Join(dir, utsRelease), maxHeader)
	m := releaseText.FindStringSubmatch(text)
	if m == nil || recipe.CheckRelease(m[1]) != nil {
		return k, utsRelease + " names no release of a kernel"
	}
	k.Release = m[1]
	if !slices.ContainsFunc(
		buildtree.Names(k.Release),
		func(name string) bool { at, err := tree.Resolve(name); return err == nil && at == dir },
	) {
		return k, fmt.Sprintf(
			"its headers are in /%s: a compile looks in /lib/modules/%s/build and in /usr/src",
			dir,
			k.Release,
		)
	}
	for _, name := range needed {
		if e, err := tree.Stat(path.Join(dir, name)); err != nil || e.Kind != rootfs.File {
			return k, fmt.Sprintf("its headers lack %s", name)
		}
	}
	config := head(tree, path.Join(dir, autoConf), maxConfig)
	for name, option := range configOfArch {
		if name != arch && hasLine(config, option) && !hasLine(config, configOfArch[arch]) {
			return k, "it is a kernel for " + name
		}
	}
	for _, text := range []string{config, head(tree, path.Join(dir, compileHeader), maxHeader)} {
		if m := compilerText.FindStringSubmatch(text); m != nil && k.Compiler == "" {
			k.Compiler = m[1]
		}
	}
	k.Flavour = distros.ParseRelease(k.Release).Flavour
	k.Version = driverinfo.UpstreamRelease(
		k.Release,
		strings.TrimSpace(head(tree, path.Join(dir, kernelRelease), maxHeader)),
	)
	return k, ""
}

func hasLine(text, line string) bool {
	return line != "" &&
		(strings.HasPrefix(text, line+"\n") || strings.Contains(text, "\n"+line+"\n"))
}

// head returns the content of a file of the image, up to a limit; "" if there is none.
func head(tree *rootfs.Tree, name string, limit int64) string {
	e, err := tree.Stat(name)
	if err != nil {
		return ""
	}
	r, err := e.Open()
	if err != nil {
		return ""
	}
	data, err := bounded.Read(io.LimitReader(r, limit), limit)
	if err != nil {
		return ""
	}
	return string(bytes.ToValidUTF8(data, []byte("?")))
}
