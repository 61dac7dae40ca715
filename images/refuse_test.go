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

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/imagetest"
	"github.com/driver-container/driver-container/ci/makeself"
	"github.com/driver-container/driver-container/ci/repotest"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/distros/dpkg"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/driver"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/nvredist"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/images/runfile"
)

func (r *rig) refused(t *testing.T, s matrix.Selection) error {
	t.Helper()
	planned := r.plan(t, s, recipe.Options{})
	img, err := r.b.Build(t.Context(), planned)
	if err == nil {
		t.Fatalf("built %v", img)
	}
	return err
}

func TestArchiveRefused(t *testing.T) {
	t.Parallel()
	without := func(drop ...string) []byte {
		files := slices.DeleteFunc(imagetest.DriverFiles(newDriver, "amd64"), func(f repotest.File) bool { return slices.Contains(drop, f.Name) })
		return imagetest.Run(t, newDriver, "amd64", files, nil)
	}
	broken := func(change func(*makeself.Archive)) []byte {
		return imagetest.Run(t, newDriver, "amd64", imagetest.DriverFiles(newDriver, "amd64"), change)
	}
	member := func(name, line string) makeself.Member {
		return makeself.Member{Name: name, Mode: 0o644, Line: line, Size: 1, Open: makeself.Bytes([]byte("x"))}
	}
	for what, c := range map[string]struct {
		archive []byte
		why     []string
	}{
		"another version":      {imagetest.Run(t, oldDriver, "amd64", imagetest.DriverFiles(oldDriver, "amd64"), nil), []string{"the archive is driver 418.87.01 for x86_64, not 535.261.03 for x86_64", "matrix"}},
		"another architecture": {imagetest.Run(t, newDriver, "arm64", imagetest.DriverFiles(newDriver, "arm64"), nil), []string{"for aarch64, not", "matrix"}},
		"library of another architecture": {broken(func(a *makeself.Archive) {
			a.Members = append(a.Members, elfMember("libnvidia-odd.so."+newDriver, "OPENGL_LIB NATIVE MODULE:x", imagetest.ELF{Arch: "arm64"}))
		}), []string{"libnvidia-odd", "EM_AARCH64", "amd64"}},
		"program of another architecture": {broken(func(a *makeself.Archive) {
			a.Members = append(a.Members, elfMember("nvidia-cuda-mps-server", "UTILITY_BINARY MODULE:x", imagetest.ELF{Arch: "arm64", Program: true}))
		}), []string{"nvidia-cuda-mps-server", "EM_AARCH64"}},
		"32-bit library that is not": {broken(func(a *makeself.Archive) {
			a.Members = append(a.Members, elfMember("32/libnvidia-odd.so."+newDriver, "OPENGL_LIB COMPAT32 MODULE:x", imagetest.ELF{Arch: "amd64"}))
		}), []string{"libnvidia-odd", "EM_X86_64"}},
		"soname that is a path": {broken(func(a *makeself.Archive) {
			a.Members = append(a.Members, elfMember("libnvidia-odd.so."+newDriver, "OPENGL_LIB NATIVE MODULE:x", imagetest.ELF{Soname: "../libodd.so.1"}))
		}), []string{"libnvidia-odd", "is a path"}},
		"library that was cut": {broken(func(a *makeself.Archive) {
			m := elfMember("libnvidia-odd.so."+newDriver, "OPENGL_LIB NATIVE MODULE:x", imagetest.ELF{})
			body := imagetest.ELF{}.Bytes()
			m.Size, m.Open = int64(len(body)/2), makeself.Bytes(body[:len(body)/2])
			a.Members = append(a.Members, m)
		}), []string{"libnvidia-odd", "cut off"}},
		"whiteout": {broken(func(a *makeself.Archive) {
			a.Members = append(a.Members, member(".wh.etc", "EXPLICIT_PATH / MODULE:x"))
		}), []string{".wh.etc", "whiteout"}},
		"member missing": {broken(func(a *makeself.Archive) {
			a.Members = append(a.Members, makeself.Member{Name: "libnvidia-gone.so.1", Line: "OPENGL_LIB NATIVE MODULE:x"})
		}), []string{"libnvidia-gone"}},
		"no NVML":         {without(libDir + "/libnvidia-ml.so." + newDriver), []string{"libnvidia-ml.so.535.261.03", "complete driver"}},
		"no nvidia-smi":   {without("usr/bin/nvidia-smi"), []string{"usr/bin/nvidia-smi"}},
		"no licence":      {without("licenses/LICENSE"), []string{"LICENSE"}},
		"no open sources": {without("usr/src/nvidia-535.261.03/kernel-open/Kbuild"), []string{"open sources"}},
		"unknown type":    {broken(func(a *makeself.Archive) { a.Members = append(a.Members, member("odd", "NEW_THING MODULE:x")) }), []string{"NEW_THING"}},
		"not an archive":  {bytes.Repeat([]byte("no\n"), 500), nil},
		"cut":             {without()[:3000], nil},
		"not a library": {broken(func(a *makeself.Archive) {
			a.Members = append(a.Members, member("libnvidia-odd.so."+newDriver, "OPENGL_LIB NATIVE MODULE:x"))
		}), []string{"libnvidia-odd", "ELF"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.PutRun(newDriver, "amd64", c.archive)
			err := r.refused(t, pair("ubuntu18.04", newDriver))
			assert.ErrorContains(t, err, c.why...)
			if !slices.ContainsFunc(wrongContent, func(kind error) bool { return errors.Is(err, kind) }) {
				t.Errorf("%v is of no kind that says that the content is wrong", err)
			}
		})
	}
}

// wrongContent are the kinds of error for which driver-build has exit code 5.
var wrongContent = []error{
	driver.ErrContent, runfile.ErrHeader, runfile.ErrPayload, runfile.ErrManifest, runfile.ErrUnsafe, rootfs.ErrUnsafePath, rootfs.ErrFormat, rootfs.ErrTooLarge,
	dpkg.ErrFormat, dpkg.ErrUnsafePath, nvredist.ErrArchive,
}

func elfMember(name, line string, file imagetest.ELF) makeself.Member {
	body := file.Bytes()
	return makeself.Member{Name: name, Mode: 0o755, Line: line, Size: int64(len(body)), Open: makeself.Bytes(body)}
}

// TestTampered: content that is not what was planned is refused and never used.
func TestTampered(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		system string
		path   func(*rig) string
	}{
		"archive":        {"ubuntu18.04", func(*rig) string { return imagetest.RunPath(newDriver, "amd64") }},
		"package":        {"debian12", func(r *rig) string { a := r.Archives["debian12"]; return a.Path(*a.Find("kmod", "amd64")) }},
		"driver package": {"debian12", func(r *rig) string { a := r.Archives["debian12"]; return a.Path(*a.Find("libcuda1", "amd64")) }},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			data := bytes.Clone(r.File(c.path(r)))
			data[len(data)/2] ^= 1
			r.Put(c.path(r), data)
			err := r.refused(t, pair(c.system, newDriver))
			var m *fetch.MismatchError
			if !errors.As(err, &m) {
				t.Fatal(err)
			}
			if r.b.Store.Has(m.Want) || r.b.Store.Has(m.Got) {
				t.Error("the store has it")
			}
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
		"inner":       {repotest.File{Name: "usr/../../x", Body: "x"}, dpkg.ErrUnsafePath},
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
			assert.ErrorIs(t, r.refused(t, pair("debian12", newDriver)), c.want)
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
			err := r.refused(t, pair("debian12", newDriver))
			if assert.ErrorContains(t, err, "kmod", "control file", name); !errors.Is(err, dpkg.ErrFormat) {
				t.Error(err)
			}
		})
	}
}

func TestPlanRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.b.Plan(t.Context(), r.target(t, pair("debian12", newDriver)), recipe.Options{Base: r.Base("ubuntu16.04")})
	assert.ErrorContains(t, err, "ubuntu 16.04", "debian12", "give a base of that system")
	old := r.target(t, pair("ubuntu16.04", oldDriver))
	old.Driver.Archives = nil
	_, err = r.b.Plan(t.Context(), old, recipe.Options{})
	assert.ErrorContains(t, err, "driver 418.87.01 has no archive for amd64")
	_, err = r.b.Plan(t.Context(), old, recipe.Options{Source: "file:///x.run"})
	assert.ErrorContains(t, err, "no checksum", "archives.amd64")
	_, err = r.b.Plan(t.Context(), r.target(t, pair("debian12", newDriver)), recipe.Options{Mirror: "nowhere=http://x"})
	assert.ErrorContains(t, err, "nowhere")
	wrong := r.target(t, pair("debian12", newDriver))
	debian := *wrong.Driver.Debian
	debian.Packages = []string{"libnvidia-nothing1"}
	wrong.Driver.Debian = &debian
	_, err = r.b.Plan(t.Context(), wrong, recipe.Options{})
	assert.ErrorContains(t, err, "libnvidia-nothing1", "packages of debian12 amd64")
	r.b.Binaries = func(string) ([]recipe.Binary, error) { return nil, errors.New("no programs") }
	_, err = r.b.Plan(t.Context(), old, recipe.Options{})
	assert.ErrorContains(t, err, "no programs")
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
	_, err = r.b.Plan(t.Context(), r.target(t, pair("ubuntu18.04", oldDriver)), recipe.Options{})
	assert.ErrorContains(t, err, "no os-release")
}
