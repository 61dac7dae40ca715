package images

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/makeself"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
)

// redistPath is where a world serves an archive of the redist folder.
const redistPath = "/redist/nvidia_driver-linux-x86_64-535.261.03-archive.tar.xz"

// fromRedist changes a target's archive to one of the redist folder, with that content.
func (r *rig) fromRedist(t *testing.T, target matrix.Target, data []byte) matrix.Target {
	t.Helper()
	r.Put(redistPath, data)
	target.Driver.Archives = map[string]matrix.Archive{
		target.Arch: {URL: r.URL + redistPath, SHA256: fmt.Sprintf("%x", sha256.Sum256(data)), Size: int64(len(data))},
	}
	return target
}

// redistOf makes the archive of the redist folder that belongs to a .run archive of the same files.
func redistOf(t *testing.T, files []repotest.File, change func(*makeself.Archive)) (run, redist []byte) {
	t.Helper()
	run = imagetest.Run(t, newDriver, "amd64", files, func(a *makeself.Archive) {
		if change != nil {
			change(a)
		}
		redist = redistArchive(t, a)
	})
	return run, redist
}

// redistArchive is an archive of NVIDIA's redist folder: xz, one top folder, libraries, programs and the rest in
// folders of their own, and the links of libraries beside them.
func redistArchive(t *testing.T, a *makeself.Archive) []byte {
	t.Helper()
	platform := map[string]string{"x86_64": "x86_64", "aarch64": "sbsa"}[a.Arch]
	top := fmt.Sprintf("nvidia_driver-linux-%s-%s-archive/", platform, a.Version)
	files := []repotest.File{{Name: top + "MANIFEST", Body: string(a.Render())}}
	linked := map[string]bool{}
	for _, m := range a.Members {
		name := "share/" + m.Name
		switch rest, is32 := strings.CutPrefix(m.Name, "32/"); {
		case m.Line == "": // makeself's own
			continue
		case is32:
			name = "lib32/" + rest
		case m.Name == "LICENSE" || strings.Contains(m.Name, "/"):
			name = m.Name
		case strings.HasPrefix(m.Name, "lib"):
			name = "lib/" + m.Name
		case strings.Contains(m.Line, "BINARY"):
			name = "bin/" + m.Name
		}
		file := repotest.File{Name: top + name, Mode: int64(m.Mode.Perm())}
		if m.Open != nil {
			file.Body = string(require.Value(io.ReadAll(require.Value(m.Open())(t)))(t))
			files = append(files, file)
			continue
		}
		words := strings.Fields(m.Line)
		file.Link = words[len(words)-2] // the last word is MODULE:tag
		if !linked[name] && !strings.Contains(m.Line, "COMPAT32") && !strings.Contains(file.Link, "/") {
			files = append(files, file)
		}
		linked[name] = true
	}
	return repotest.Compress(t, ".xz", repotest.Tar(t, "", files))
}

// TestRedistSameLayers: a driver from an archive of the redist folder and one from the .run archive of the
// same files give the same layers, byte for byte, and the recipe says which it was.
func TestRedistSameLayers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	all := imagetest.DriverFiles(newDriver, "amd64")
	for _, files := range [][]repotest.File{all, slices.DeleteFunc(slices.Clone(all), func(f repotest.File) bool { return strings.Contains(f.Name, "i386") })} {
		run, archive := redistOf(t, files, nil)
		r.PutRun(newDriver, "amd64", run)
		target := r.target(t, pair("ubuntu18.04", newDriver))
		_, want := made(t, r.b, target, recipe.Options{})
		planned, got := made(t, r.b, r.fromRedist(t, target, archive), recipe.Options{})
		assert.Equalf(t, true, planned.Source.Redist != nil && planned.Source.Runfile == nil, "source %+v", planned.Source)
		for i, name := range []string{"base", "packages", "user-mode driver", "kernel sources"} {
			assert.Equalf(t, digestOf(t, layersOf(t, want)[i]), digestOf(t, layersOf(t, got)[i]), "%s layer", name)
		}
	}
}

// TestRedistWithout32: an archive that lacks the 32-bit libraries of its manifest gives a driver
// without them.
func TestRedistWithout32(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var manifest []byte
	_, archive := redistOf(t, imagetest.DriverFiles(newDriver, "amd64"), func(a *makeself.Archive) {
		manifest = a.Render()
		a.Manifest = manifest
		a.Members = slices.DeleteFunc(a.Members, func(m makeself.Member) bool { return strings.HasPrefix(m.Name, "32/") })
	})
	assert.Contains(t, string(manifest), "./32/libcuda.so.")
	target := r.fromRedist(t, r.target(t, pair("ubuntu18.04", newDriver)), archive)
	_, img := made(t, r.b, target, recipe.Options{})
	tree := treeOf(t, img)
	assert.Equalf(t, true, tree.Exists(libDir+"/libcuda.so."+newDriver), "the native library")
	assert.Equalf(t, false, tree.Exists("usr/lib/i386-linux-gnu/libcuda.so.1"), "a 32-bit link")
}

func TestRedistRefused(t *testing.T) {
	t.Parallel()
	files := imagetest.DriverFiles(newDriver, "amd64")
	other := func(version, arch string) []byte {
		var made []byte
		imagetest.Run(t, version, arch, imagetest.DriverFiles(version, arch), func(a *makeself.Archive) { made = redistArchive(t, a) })
		return made
	}
	extra := func(names ...string) []byte {
		_, archive := redistOf(t, files, func(a *makeself.Archive) {
			for _, name := range names {
				a.Members = append(a.Members, makeself.Member{Name: name, Line: "EXPLICIT_PATH / MODULE:x", Mode: 0o644, Size: 1, Open: makeself.Bytes([]byte("x"))})
			}
		})
		return archive
	}
	_, whole := redistOf(t, files, nil)
	flipped := bytes.Clone(whole)
	flipped[len(flipped)/2] ^= 1
	for what, c := range map[string]struct {
		archive []byte
		why     []string
	}{
		"another version":       {other(oldDriver, "amd64"), []string{"the archive is \"nvidia_driver-linux-x86_64-418.87.01-archive\", not nvidia_driver-linux-x86_64-535.261.03", "matrix"}},
		"another architecture":  {other(newDriver, "arm64"), []string{"the archive is \"nvidia_driver-linux-sbsa-535.261.03-archive\", not nvidia_driver-linux-x86_64-535.261.03"}},
		"two members, one name": {extra("etc/libodd.so.1", "lib/libodd.so.1"), []string{"would be libodd.so.1 of the .run archive"}},
		"flipped":               {flipped, nil},
		"no licence": {func() []byte {
			_, archive := redistOf(t, slices.DeleteFunc(slices.Clone(files), func(f repotest.File) bool { return f.Name == "licenses/LICENSE" }), nil)
			return archive
		}(), []string{"LICENSE"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			target := r.fromRedist(t, r.target(t, pair("ubuntu18.04", newDriver)), c.archive)
			wantContent(t, refused(t, r.b, target), c.why...)
		})
	}
	t.Run("size that lies", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		target := r.fromRedist(t, r.target(t, pair("ubuntu18.04", newDriver)), whole)
		a := target.Driver.Archives["amd64"]
		a.Size++
		target.Driver.Archives["amd64"] = a
		wantContent(t, refused(t, r.b, target), fmt.Sprintf("size is %d bytes, expected %d", len(whole), len(whole)+1))
	})
}
