package headersimage_test

import (
	"archive/tar"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/headersimage"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/rootfs"
)

const (
	plain = "5.14.0-427.13.1.el9_4.x86_64"
	rt    = "5.14.0-427.13.1.el9_4.x86_64+rt"
)

// headers are those of a Red Hat kernel, in one folder.
func headers(release string) []repotest.File {
	dir := "usr/src/kernels/" + release + "/"
	return []repotest.File{
		{Name: dir + "include/config/auto.conf", Body: "CONFIG_X86_64=y\nCONFIG_CC_VERSION_TEXT=\"gcc (GCC) 11.4.1 20231218 (Red Hat 11.4.1-3)\"\n"},
		{Name: dir + "include/generated/utsrelease.h", Body: "#define UTS_RELEASE \"" + release + "\"\n"},
		{Name: dir + "include/generated/autoconf.h"},
		{Name: dir + "Module.symvers"},
		{Name: dir + "scripts/mod/modpost", Mode: 0o755},
	}
}

func programs() []repotest.File {
	return []repotest.File{{Name: "usr/bin/gcc", Mode: 0o755, Body: "x"}, {Name: "usr/bin/make", Mode: 0o755, Body: "x"}}
}

func image(t *testing.T, files ...repotest.File) v1.Image {
	t.Helper()
	layer := repotest.Compress(t, ".gz", repotest.Tar(t, "", files))
	return imagetest.Image(t, "amd64", v1.Config{Env: []string{"PATH=relative:/opt/x/bin:/usr/bin"}}, layer)
}

func read(t *testing.T, img v1.Image) (headersimage.Contents, error) {
	t.Helper()
	store := require.Value(fetch.OpenStore(t.TempDir()))(t)
	digest := require.Value(img.Digest())(t).String()
	found, err := headersimage.Read(t.Context(), store, img, digest, "amd64", progress.Quiet())
	again, ok := headersimage.Cached(store, digest)
	assert.Equal(t, err == nil, ok)
	if ok {
		assert.Same(t, found, again)
	}
	return found, err
}

func TestDriverToolkit(t *testing.T) {
	t.Parallel()
	files := slices.Concat(programs(), headers(plain), headers(rt), []repotest.File{{Name: "etc/driver-toolkit-release.json", Body: fmt.Sprintf(
		`{"KERNEL_VERSION": %q, "RT_KERNEL_VERSION": %q, "RHEL_VERSION": "9.4"}`, plain, plain)}})
	found := require.Value(read(t, image(t, files...)))(t)
	assert.NoError(t, found.Check())
	assert.Equal(t, 2, len(found.Kernels))
	for i, want := range []struct{ release, flavour string }{{rt, "rt"}, {plain, ""}} {
		k := found.Kernels[i]
		assert.Equal(t, want.release, k.Release)
		assert.Equal(t, want.flavour, k.Flavour)
		assert.Equal(t, true, k.Default)
		assert.Equal(t, "/usr/src/kernels/"+want.release, k.Headers)
		assert.Equal(t, "gcc (GCC) 11.4.1 20231218 (Red Hat 11.4.1-3)", k.Compiler)
	}
	assert.Same(t, []string{"/usr/bin/gcc"}, found.Compilers)
}

// TestFlatcar: the root of a developer container, as a tar of its disk has it. The trees are in
// /usr/lib/modules, in one folder, or with the sources in a second one as before Linux 6.12; all names of the
// toolchain have the target in front.
func TestFlatcar(t *testing.T) {
	t.Parallel()
	const cros, modules = "usr/bin/x86_64-cros-linux-gnu-", "usr/lib/modules/"
	files := []repotest.File{
		{Name: "lib", Link: "usr/lib"}, {Name: "bin", Link: "usr/bin"},
		{Name: cros + "gcc", Mode: 0o755, Body: "x"}, {Name: cros + "gcc-14", Mode: 0o755, Body: "x"}, {Name: cros + "gcc-ar", Mode: 0o755, Body: "x"},
		{Name: cros + "ld", Mode: 0o755, Body: "x"}, {Name: "usr/bin/make", Mode: 0o755, Body: "x"},
		{Name: modules + "6.12.81-flatcar/source", Link: "build"}, {Name: modules + "6.6.95-flatcar/source/Makefile", Body: "x"},
	}
	for _, release := range []string{"6.12.81-flatcar", "6.6.95-flatcar"} {
		for _, f := range headers(release) {
			f.Name = strings.Replace(f.Name, "usr/src/kernels/"+release, modules+release+"/build", 1)
			f.Body = strings.Replace(f.Body, "gcc (GCC) 11.4.1 20231218 (Red Hat 11.4.1-3)", "x86_64-cros-linux-gnu-gcc (Gentoo Hardened 14.3.0 p8) 14.3.0", 1)
			files = append(files, f)
		}
	}
	found := require.Value(read(t, image(t, files...)))(t)
	assert.NoError(t, found.Check())
	for i, release := range []string{"6.12.81-flatcar", "6.6.95-flatcar"} {
		k := found.Kernels[i]
		assert.Equal(t, release+" flatcar /"+modules+release+"/build", k.Release+" "+k.Flavour+" "+k.Headers)
		assert.Equal(t, "x86_64-cros-linux-gnu-gcc (Gentoo Hardened 14.3.0 p8) 14.3.0", k.Compiler)
	}
	assert.Same(t, []string{"/" + cros + "gcc", "/" + cros + "gcc-14"}, found.Compilers)
}

// TestUnsuitable: an image that cannot compile says what it lacks.
func TestUnsuitable(t *testing.T) {
	t.Parallel()
	without := func(name string) []repotest.File {
		return slices.DeleteFunc(slices.Concat(programs(), headers(plain)), func(f repotest.File) bool { return strings.HasSuffix(f.Name, name) })
	}
	replaced := func(name, body string) []repotest.File {
		return append(without(name), repotest.File{Name: "usr/src/kernels/" + plain + "/" + name, Body: body})
	}
	for what, c := range map[string]struct {
		files []repotest.File
		want  string
	}{
		"nothing":                 {[]repotest.File{{Name: "etc/hostname", Body: "x"}}, "it has headers of no kernel"},
		"no compiler":             {without("bin/gcc"), "no C compiler: install the one of its kernels into the image, such as gcc (GCC) 11.4.1"},
		"no make":                 {without("bin/make"), "no make"},
		"a link to no compiler":   {append(without("bin/gcc"), repotest.File{Name: "usr/bin/gcc", Link: "/usr/bin/gone"}), "no C compiler"},
		"headers in part":         {without("scripts/mod/modpost"), plain + ": its headers lack scripts/mod/modpost"},
		"no symbols":              {without("Module.symvers"), "its headers lack Module.symvers"},
		"a folder for a file":     {append(without("Module.symvers"), repotest.File{Name: "usr/src/kernels/" + plain + "/Module.symvers/"}), "its headers lack Module.symvers"},
		"another architecture":    {replaced("include/config/auto.conf", "CONFIG_ARM64=y\n"), "it is a kernel for arm64"},
		"a release with a path":   {replaced("include/generated/utsrelease.h", "#define UTS_RELEASE \"../../etc\"\n"), "names no release of a kernel"},
		"a release with a flag":   {replaced("include/generated/utsrelease.h", "#define UTS_RELEASE \"5.14.0 --into\"\n"), "names no release of a kernel"},
		"a very long release":     {replaced("include/generated/utsrelease.h", "#define UTS_RELEASE \"5.14.0"+strings.Repeat("0", 60)+"\"\n"), "names no release of a kernel"},
		"of another folder":       {replaced("include/generated/utsrelease.h", "#define UTS_RELEASE \"6.1.0\"\n"), "6.1.0: its headers are in /usr/src/kernels/" + plain},
		"a large header":          {replaced("include/generated/utsrelease.h", strings.Repeat("\n", 64<<10)+"#define UTS_RELEASE \"6.1.0\"\n"), "names no release of a kernel"},
		"a toolkit without one":   {append(programs(), repotest.File{Name: "etc/driver-toolkit-release.json", Body: `{"KERNEL_VERSION": "` + plain + `"}`}), plain + ": /etc/driver-toolkit-release.json names it"},
		"a damaged file":          {append(without("x"), repotest.File{Name: "etc/driver-toolkit-release.json", Body: "{"}), "driver-toolkit-release.json cannot be read"},
		"a large file":            {append(without("x"), repotest.File{Name: "etc/driver-toolkit-release.json", Body: strings.Repeat(" ", 64<<10+1)}), "driver-toolkit-release.json cannot be read"},
		"a file of other kernels": {append(without("x"), repotest.File{Name: "etc/driver-toolkit-release.json", Body: `{"KERNEL_VERSION": "$(id)"}`}), "driver-toolkit-release.json cannot be read"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			found, err := read(t, image(t, c.files...))
			if err == nil {
				err = found.Check()
			}
			assert.ErrorIs(t, err, headersimage.ErrUnsuitable)
			assert.ErrorContains(t, err, c.want)
		})
	}
}

// TestHostile: links, devices and whiteouts of an image lead nowhere else.
func TestHostile(t *testing.T) {
	t.Parallel()
	release := []repotest.File{{Name: "lib/modules/" + plain + "/build", Link: "../../../../../../../opt/tree"}}
	for _, f := range headers(plain) {
		f.Name = strings.Replace(f.Name, "usr/src/kernels/"+plain, "opt/tree", 1)
		release = append(release, f)
	}
	found := require.Value(read(t, image(t, slices.Concat(programs(), release)...)))(t)
	assert.NoErrorf(t, found.Check(), "a link that climbs out stays in the image")
	assert.Equal(t, "/opt/tree", found.Kernels[0].Headers)

	loop := append(programs(), repotest.File{Name: "lib/modules/" + plain + "/build", Link: "build"})
	found = require.Value(read(t, image(t, loop...)))(t)
	assert.ErrorContains(t, found.Check(), "headers of no kernel")

	device := append(slices.Concat(programs(), headers(plain)), repotest.File{Name: "usr/bin/make", Type: tar.TypeChar})
	found = require.Value(read(t, image(t, device...)))(t)
	assert.ErrorContains(t, found.Check(), "no make")

	lower := repotest.Compress(t, ".gz", repotest.Tar(t, "", slices.Concat(programs(), headers(plain), headers(rt))))
	upper := repotest.Compress(t, ".gz", repotest.Tar(t, "", []repotest.File{{Name: "usr/src/kernels/.wh." + rt}}))
	found = require.Value(read(t, imagetest.Image(t, "amd64", v1.Config{}, lower, upper)))(t)
	assert.Equal(t, 1, len(found.Kernels))

	var many []repotest.File
	for i := range 65 {
		many = append(many, repotest.File{Name: fmt.Sprintf("usr/src/linux-%d/include/generated/utsrelease.h", i), Body: "x"})
	}
	_, err := read(t, image(t, many...))
	assert.ErrorIs(t, err, rootfs.ErrTooLarge)
	_, err = read(t, image(t, repotest.File{Name: "../x", Body: "x"}))
	assert.ErrorIs(t, err, rootfs.ErrUnsafePath)
}

func TestSearchPath(t *testing.T) {
	t.Parallel()
	const usual = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	for text, want := range map[string]string{
		"":                                   usual,
		"HOME=/x":                            usual,
		"PATH=":                              usual,
		"PATH=/opt/gcc/bin:relative:/bin":    "/opt/gcc/bin:/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin",
		"PATH=/opt/../usr/bin:/usr/bin//":    "/usr/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin:/bin",
		"PATH=/" + strings.Repeat("x", 5000): usual,
		"PATH=/a\x00b":                       usual,
	} {
		assert.Equal(t, want, headersimage.SearchPath([]string{text}))
	}
}
