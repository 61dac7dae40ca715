package imagetest

import (
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/testkit/repotest"
)

const headerFiles = `
	usr/src/linux-headers-$RELEASE/include/config/auto.conf = CONFIG_X86_64=y\nCONFIG_CC_VERSION_TEXT="gcc-12 (Debian 12.2.0-14) 12.2.0"
	usr/src/linux-headers-$RELEASE/include/config/kernel.release = 6.1.192
	usr/src/linux-headers-$RELEASE/include/generated/utsrelease.h = #define UTS_RELEASE "$RELEASE"
	usr/src/linux-headers-$RELEASE/include/generated/autoconf.h = /* */
	usr/src/linux-headers-$RELEASE/Module.symvers = 0x0	x
	usr/src/linux-headers-$RELEASE/scripts -> ../../lib/linux-kbuild-6.1/scripts
	usr/lib/modules/$RELEASE/build -> /usr/src/linux-headers-$RELEASE
`

const toolkitFiles = `
	lib -> usr/lib
	usr/bin/gcc-12 * compiler
	usr/bin/gcc -> gcc-12
	usr/bin/make * make
	usr/lib/linux-kbuild-6.1/scripts/mod/modpost * program
`

// Headers returns complete headers of a kernel, in Debian's layout.
func Headers(release string) []repotest.File {
	return filesOf(headerFiles, "", "$RELEASE", release)
}

// ToolkitFiles returns the files of an image with headers of kernels and their compiler.
func ToolkitFiles(releases ...string) []repotest.File {
	files := filesOf(toolkitFiles, "")
	for _, release := range releases {
		files = append(files, Headers(release)...)
	}
	return files
}

// ToolkitImage makes an image of files.
func (w *World) ToolkitImage(arch string, files ...repotest.File) v1.Image {
	layer := repotest.Compress(w.t, ".gz", repotest.Tar(w.t, "", files))
	return Image(w.t, arch, v1.Config{Env: []string{"PATH=/opt/bin:/usr/bin"}}, layer)
}

// PushToolkit pushes an image of files to the registry, and returns its reference. A second push
// moves the tag.
func (w *World) PushToolkit(tag, arch string, files ...repotest.File) string {
	ref := w.Host + "/toolkit/" + tag + ":test"
	w.push(ref, w.ToolkitImage(arch, files...))
	return ref
}
