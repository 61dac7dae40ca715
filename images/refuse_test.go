package images

import (
	"archive/tar"
	"bytes"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/makeself"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/dpkg"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// wantContent fails unless an error says that content is wrong, for which driver-build has exit code 5, and why.
func wantContent(t *testing.T, err error, why ...string) {
	t.Helper()
	assert.ErrorContains(t, err, why...)
	assert.Equalf(t, failure.Content, failure.KindOf(err), "%v", err)
}

func TestArchiveRefused(t *testing.T) {
	t.Parallel()
	without := func(drop ...string) []byte {
		files := slices.DeleteFunc(imagetest.DriverFiles(newDriver, "amd64"), func(f repotest.File) bool { return slices.Contains(drop, f.Name) })
		return imagetest.Run(t, newDriver, "amd64", files, nil)
	}
	// with adds a file to the archive.
	with := func(name, line string, body []byte) []byte {
		return imagetest.Run(t, newDriver, "amd64", imagetest.DriverFiles(newDriver, "amd64"), func(a *makeself.Archive) {
			m := makeself.Member{Name: name, Line: line, Size: int64(len(body))}
			if body != nil {
				m.Mode, m.Open = 0o755, makeself.Bytes(body)
			}
			a.Members = append(a.Members, m)
		})
	}
	const odd, library = "libnvidia-odd.so." + newDriver, "OPENGL_LIB NATIVE MODULE:x"
	elf := func(file imagetest.ELF) []byte { return file.Bytes() }
	for what, c := range map[string]struct {
		archive []byte
		why     []string
	}{
		"another version":                 {imagetest.Run(t, oldDriver, "amd64", imagetest.DriverFiles(oldDriver, "amd64"), nil), []string{"the archive is driver 418.87.01 for x86_64, not 535.261.03 for x86_64", "matrix"}},
		"another architecture":            {imagetest.Run(t, newDriver, "arm64", imagetest.DriverFiles(newDriver, "arm64"), nil), []string{"for aarch64, not", "matrix"}},
		"library of another architecture": {with(odd, library, elf(imagetest.ELF{Arch: "arm64"})), []string{"libnvidia-odd", "EM_AARCH64", "amd64"}},
		"program of another architecture": {
			with("nvidia-cuda-mps-server", "UTILITY_BINARY MODULE:x", elf(imagetest.ELF{Arch: "arm64", Program: true})), []string{"nvidia-cuda-mps-server", "EM_AARCH64"},
		},
		"32-bit library that is not": {with("32/"+odd, "OPENGL_LIB COMPAT32 MODULE:x", elf(imagetest.ELF{Arch: "amd64"})), []string{"libnvidia-odd", "EM_X86_64"}},
		"soname that is a path":      {with(odd, library, elf(imagetest.ELF{Soname: "../libodd.so.1"})), []string{"libnvidia-odd", "is a path"}},
		"library that was cut":       {with(odd, library, elf(imagetest.ELF{})[:len(elf(imagetest.ELF{}))/2]), []string{"libnvidia-odd", "cut off"}},
		"not a library":              {with(odd, library, []byte("x")), []string{"libnvidia-odd", "ELF"}},
		"whiteout":                   {with(".wh.etc", "EXPLICIT_PATH / MODULE:x", []byte("x")), []string{".wh.etc", "whiteout"}},
		"member missing":             {with("libnvidia-gone.so.1", library, nil), []string{"libnvidia-gone"}},
		"unknown type":               {with("odd", "NEW_THING MODULE:x", []byte("x")), []string{"NEW_THING"}},
		"no NVML":                    {without(libDir + "/libnvidia-ml.so." + newDriver), []string{"libnvidia-ml.so.535.261.03", "complete driver"}},
		"no nvidia-smi":              {without("usr/bin/nvidia-smi"), []string{"usr/bin/nvidia-smi"}},
		"no licence":                 {without("licenses/LICENSE"), []string{"LICENSE"}},
		"no open sources":            {without("usr/src/nvidia-535.261.03/kernel-open/Kbuild"), []string{"open sources"}},
		"not an archive":             {bytes.Repeat([]byte("no\n"), 500), nil},
		"cut":                        {without()[:3000], nil},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.PutRun(newDriver, "amd64", c.archive)
			wantContent(t, refused(t, r.b, r.target(t, pair("ubuntu18.04", newDriver))), c.why...)
		})
	}
}

func TestHostilePackage(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		file repotest.File
		want error
	}{
		"path escape": {repotest.File{Name: "../../etc/passwd", Body: "x"}, dpkg.ErrUnsafePath},
		"whiteout":    {repotest.File{Name: "usr/bin/.wh.sh"}, rootfs.ErrUnsafePath},
		"link loop":   {repotest.File{Name: "usr/share/loop/x/y", Body: "x"}, rootfs.ErrUnsafePath},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			a := r.Archives["debian12"]
			p := a.Find("kmod", "amd64")
			p.Files = append(p.Files, repotest.File{Name: "usr/share/loop", Link: "loop", Type: tar.TypeSymlink}, c.file)
			a.Publish()
			assert.ErrorIs(t, refused(t, r.b, r.target(t, pair("debian12", newDriver))), c.want)
		})
	}
}

// TestOtherPackage: a package whose control file says another thing than the signed index is not recorded.
func TestOtherPackage(t *testing.T) {
	t.Parallel()
	for _, field := range []string{"Package: kmode", "Version: 99", "Architecture: arm64"} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			a := r.Archives["debian12"]
			p := a.Find("kmod", "amd64")
			name, _, _ := strings.Cut(field, ":")
			p.Inside = regexp.MustCompile(`(?m)^`+name+`: .*$`).ReplaceAllString(p.Control, field)
			a.Publish()
			wantContent(t, refused(t, r.b, r.target(t, pair("debian12", newDriver))), "kmod", "control file", name)
		})
	}
}

func TestPlanRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := planOne(t, r.b, r.target(t, pair("debian12", newDriver)), recipe.Options{Base: r.Base("ubuntu16.04")})
	assert.ErrorContains(t, err, "ubuntu 16.04", "debian12", "give a base of that system")
	old := r.target(t, pair("ubuntu16.04", oldDriver))
	old.Driver.Archives = nil
	_, err = planOne(t, r.b, old, recipe.Options{})
	assert.ErrorContains(t, err, "driver 418.87.01 has no archive for amd64")
	_, err = planOne(t, r.b, old, recipe.Options{Source: "file:///x.run"})
	assert.ErrorContains(t, err, "no checksum", "archives.amd64")
	_, err = planOne(t, r.b, r.target(t, pair("debian12", newDriver)), recipe.Options{Mirror: "nowhere=http://x"})
	assert.ErrorContains(t, err, "nowhere")
	wrong := r.target(t, pair("debian12", newDriver))
	debian := *wrong.Driver.Debian
	debian.Packages = []string{"libnvidia-nothing1"}
	wrong.Driver.Debian = &debian
	_, err = planOne(t, r.b, wrong, recipe.Options{})
	assert.ErrorContains(t, err, "libnvidia-nothing1", "packages of debian12 amd64")
	r.b.Binaries = func(string) ([]recipe.Binary, error) { return nil, errors.New("no programs") }
	before := r.Requests("/")
	_, err = planOne(t, r.b, r.target(t, pair("ubuntu18.04", oldDriver)), recipe.Options{})
	assert.ErrorContains(t, err, "no programs")
	assert.Equalf(t, before, r.Requests("/"), "requests before the programs are found")
}

// TestBaseMoved: the tag of the base moved between planning and building.
func TestBaseMoved(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	planned := r.plan(t, pair("ubuntu18.04", oldDriver), recipe.Options{})
	ref, err := name.ParseReference(r.Base("ubuntu18.04"))
	require.NoError(t, err)
	other := imagetest.Image(t, "amd64", v1.Config{}, repotest.Compress(t, ".gz", repotest.Tar(t, "", nil)))
	require.NoError(t, remote.Write(ref, other))
	_, err = r.b.Build(t.Context(), planned)
	assert.ErrorContains(t, err, "was planned as", "plan again")
	r.b = r.b.with(r.b.Store) // another call
	_, err = planOne(t, r.b, r.target(t, pair("ubuntu18.04", oldDriver)), recipe.Options{})
	assert.ErrorContains(t, err, "no os-release")
}
