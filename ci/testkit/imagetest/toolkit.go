package imagetest

import (
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/testkit/repotest"
)

// Headers returns complete headers of a kernel, in Debian's layout.
func Headers(release string) []repotest.File {
	dir := "usr/src/linux-headers-" + release + "/"
	return []repotest.File{
		text(dir+"include/config/auto.conf", "CONFIG_X86_64=y\nCONFIG_CC_VERSION_TEXT=\"gcc-12 (Debian 12.2.0-14) 12.2.0\"\n"),
		text(dir+"include/config/kernel.release", "6.1.192\n"),
		text(dir+"include/generated/utsrelease.h", "#define UTS_RELEASE \""+release+"\"\n"),
		text(dir+"include/generated/autoconf.h", "/* */\n"),
		text(dir+"Module.symvers", "0x0\tx\n"),
		link(dir+"scripts", "../../lib/linux-kbuild-6.1/scripts"),
		link("usr/lib/modules/"+release+"/build", "/usr/src/linux-headers-"+release),
	}
}

// ToolkitFiles returns the files of an image with headers of kernels and their compiler.
func ToolkitFiles(releases ...string) []repotest.File {
	files := []repotest.File{
		link("lib", "usr/lib"),
		{Name: "usr/bin/gcc-12", Body: "compiler", Mode: 0o755},
		link("usr/bin/gcc", "gcc-12"),
		{Name: "usr/bin/make", Body: "make", Mode: 0o755},
		{Name: "usr/lib/linux-kbuild-6.1/scripts/mod/modpost", Body: "program", Mode: 0o755},
	}
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
