package e2e

import (
	"archive/tar"
	"bytes"
	"compress/zlib"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/imagetest"
	"github.com/driver-container/driver-container/ci/repotest"
	"github.com/driver-container/driver-container/ci/require"
)

// enoughMemory is the limit of the data of a process (RLIMIT_DATA, which counts what Go's heap has mapped)
// under which every command works, also with hostile input.
const enoughMemory = 512 << 20

// small is a world without a network: servers on loopback, small drivers, and a folder for one run.
type small struct {
	*imagetest.World
	matrix string
}

// commands are the commands of driver-build that write, with what they write below out.
func (s small) commands(t *testing.T, cache, out string) map[string][]string {
	t.Helper()
	with := func(args ...string) []string {
		return append([]string{program(t)}, append(args, "--matrix", s.matrix, "--cache", cache, "--progress", "plain")...)
	}
	pair := []string{"--os", "ubuntu18.04", "--driver", imagetest.NewDriver}
	if out != "" {
		require.NoError(t, os.MkdirAll(out, 0o755))
	}
	return map[string][]string{
		"build":         with(append(pair, "--output", "oci:"+filepath.Join(out, "image"))...),
		"build archive": with(append(pair, "--output", "oci-archive:"+filepath.Join(out, "image.tar"))...),
		"build deb":     with("--os", "debian12", "--driver", imagetest.NewDriver, "--output", "oci:"+filepath.Join(out, "image")),
		"fetch":         with(append([]string{"fetch"}, pair...)...),
		"lock":          with("lock", "--lock", filepath.Join(out, "matrix.lock")),
		"report":        with("report", "--releases", "none", "--html", filepath.Join(out, "report.html")),
	}
}

func newSmall(t *testing.T) small {
	t.Helper()
	s := small{imagetest.New(t), filepath.Join(scratch(t), "matrix.yaml")}
	require.NoError(t, os.WriteFile(s.matrix, []byte(s.Matrix()), 0o644))
	return s
}

// Test10Bounds runs the programs with little memory and on tiny disks. A command ends with its result or with
// a message that says what is missing, and leaves nothing half written: the next one succeeds.
func Test10Bounds(t *testing.T) {
	journey(t)
	s := newSmall(t)
	t.Run("enough memory", func(t *testing.T) {
		for name, args := range s.commands(t, freshDir(t, "cache"), freshDir(t, "out")) {
			if r := limited(enoughMemory, args).do(t); r.code != 0 {
				t.Errorf("%s\n%s", name, r)
			}
		}
	})
	t.Run("hostile images", func(t *testing.T) {
		for name, image := range map[string]string{"many files": manyFiles(t), "compressed section": compressedSection(t)} {
			for _, verb := range []string{"verify", "inspect --deep"} {
				r := limited(enoughMemory, append(append([]string{program(t)}, strings.Fields(verb)...), "oci:"+image, "--cache", freshDir(t, "cache"))).do(t)
				if r.code != 5 && (name == "many files" || verb == "verify") || r.code != 0 && r.code != 5 {
					t.Errorf("%s of an image with %s: want exit code 5\n%s", verb, name, r)
				}
				t.Logf("%s, %s: exit code %d after %.1f s: %s", verb, name, r.code, r.took.Seconds(), lastLine(r.stderr))
			}
		}
	})
	t.Run("hostile packages", func(t *testing.T) {
		for name, change := range map[string]func(w *imagetest.World){
			"many members": func(w *imagetest.World) {
				kmod := w.Archives["debian12"].Find("kmod", "amd64")
				for n := range 100_001 {
					kmod.Files = append(kmod.Files, repotest.File{Name: fmt.Sprintf("usr/lib/%d", n)})
				}
				w.Archives["debian12"].Publish()
			},
			"another version": func(w *imagetest.World) {
				kmod := w.Archives["debian12"].Find("kmod", "amd64")
				kmod.Inside = strings.Replace(kmod.Control, "Version: ", "Version: 9", 1)
				w.Archives["debian12"].Publish()
			},
		} {
			s := newSmall(t)
			change(s.World)
			dir := scratch(t)
			r := limited(enoughMemory, s.commands(t, filepath.Join(dir, "cache"), filepath.Join(dir, "out"))["build deb"]).do(t)
			if r.code != 5 || !strings.Contains(r.stderr, "kmod") {
				t.Errorf("%s: want exit code 5 and the name of the package\n%s", name, r)
			}
			nothingHalf(t, filepath.Join(dir, "cache"), filepath.Join(dir, "out"), false)
			t.Logf("%s: exit code %d after %.1f s: %s", name, r.code, r.took.Seconds(), lastLine(r.stderr))
		}
	})
	// Below the limit that driver-build asks for, and below what Go's runtime needs to begin.
	for _, bytes := range []int64{enoughMemory - 1, 64 << 20} {
		t.Run(fmt.Sprintf("%d MiB of memory", bytes>>20), func(t *testing.T) {
			s.each(t, func(args []string) command { return limited(bytes, args) }, "memory")
		})
	}
	for _, size := range []string{"16k", "128k", "1m"} {
		t.Run("disk of "+size, func(t *testing.T) {
			s.eachDisk(t, size)
		})
	}
	t.Run("programs of the node", func(t *testing.T) {
		for _, p := range [][]string{{"driver-entrypoint-linux-amd64", "version"}, {"driver-entrypoint-linux-amd64", "status"}, {"driver-evict-linux-amd64", "--help"}} {
			args := append([]string{filepath.Join(filepath.Dir(program(t)), p[0])}, p[1:]...)
			if free, bound := (command{args: args}).do(t), limited(128<<20, args).do(t); free.code != bound.code {
				t.Errorf("with 128 MiB of memory: exit code %d instead of %d\n%s", bound.code, free.code, bound)
			}
		}
	})
}

// limited is a command whose data segment has a limit.
func limited(bytes int64, args []string) command {
	return command{args: append([]string{"prlimit", fmt.Sprintf("--data=%d", bytes), "--"}, args...)}
}

// each runs every command with too little of something, and then without a limit on what it left.
func (s small) each(t *testing.T, limit func([]string) command, missing ...string) {
	t.Helper()
	dir := scratch(t)
	cache, out := filepath.Join(dir, "cache"), filepath.Join(dir, "out")
	for name, args := range s.commands(t, cache, out) {
		r := limit(args).do(t)
		t.Logf("%s: exit code %d: %s", name, r.code, firstLine(r.stderr))
		if r.code != 0 && !slices.ContainsFunc(missing, func(word string) bool { return strings.Contains(r.stderr, word) }) {
			t.Errorf("%s: the message speaks of none of %q\n%s", name, missing, r)
		}
		nothingHalf(t, cache, out, r.code == 0)
		if again := (command{args: args}).do(t); again.code != 0 {
			t.Errorf("%s, afterwards without a limit\n%s", name, again)
		}
		require.NoError(t, errors.Join(os.RemoveAll(cache), os.RemoveAll(out), os.Mkdir(out, 0o755)))
	}
}

// eachDisk runs every command with its cache, and then its output, on a disk of that size.
func (s small) eachDisk(t *testing.T, size string) {
	t.Helper()
	disk, dir := filepath.Join(scratch(t), "disk"), scratch(t)
	require.NoError(t, os.Mkdir(disk, 0o755))
	for _, place := range []string{"cache", "output"} {
		for name := range s.commands(t, "", "") {
			require.NoError(t, syscall.Mount("tmpfs", disk, "tmpfs", 0, "size="+size))
			cache, out := filepath.Join(disk, "cache"), filepath.Join(dir, "out")
			if place == "output" {
				cache, out = filepath.Join(dir, "cache"), filepath.Join(disk, "out")
			}
			r := command{args: s.commands(t, cache, out)[name]}.do(t)
			t.Logf("%s on a small disk, %s: exit code %d: %s", place, name, r.code, lastLine(r.stderr))
			if r.code != 0 && (r.code != 1 || !strings.Contains(r.stderr, "no space left")) {
				t.Errorf("%s on a small disk, %s: want exit code 1 and the reason\n%s", place, name, r)
			}
			nothingHalf(t, cache, out, r.code == 0)
			assert.Equal(t, 0, len(require.Value(filepath.Glob(filepath.Join(cache, "partial", "new-*")))(t)))
			require.NoError(t, errors.Join(syscall.Unmount(disk, syscall.MNT_DETACH), os.RemoveAll(filepath.Join(dir, "cache")), os.RemoveAll(filepath.Join(dir, "out"))))
		}
	}
}

// nothingHalf checks that all blobs are whole, and that a command that failed has left no file that its user
// could take for a result.
func nothingHalf(t *testing.T, cache, out string, done bool) {
	t.Helper()
	for _, dir := range []string{cache, filepath.Join(out, "image")} {
		if _, err := os.Stat(filepath.Join(dir, "blobs", "sha256")); err == nil {
			wholeBlobs(t, dir)
		}
	}
	for _, name := range []string{"image/index.json", "image.tar", "matrix.lock", "report.html"} {
		if _, err := os.Stat(filepath.Join(out, name)); !done && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there although the command failed: %v", name, err)
		}
	}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// manyFiles is an image with more files than one may have.
func manyFiles(t *testing.T) string {
	t.Helper()
	return layoutOf(t, func(w *tar.Writer) {
		for n := range 301_000 {
			require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprintf("usr/share/%d/%d", n%500, n), Mode: 0o644}))
		}
	})
}

// compressedSection is an image with a library whose section names are 700 MB of zeros, compressed.
func compressedSection(t *testing.T) string {
	t.Helper()
	const plain = 700 << 20
	var packed bytes.Buffer
	require.NoError(t, binary.Write(&packed, binary.LittleEndian, elf.Chdr64{Type: uint32(elf.COMPRESS_ZLIB), Size: plain, Addralign: 1}))
	z := zlib.NewWriter(&packed)
	zeros := make([]byte, 1<<20)
	for range plain / len(zeros) {
		require.Value(z.Write(zeros))(t)
	}
	require.NoError(t, z.Close())
	h := elf.Header64{Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Shoff: 64, Shentsize: 64, Shnum: 2, Shstrndx: 1}
	copy(h.Ident[:], elf.ELFMAG+"\x02\x01\x01")
	var file bytes.Buffer
	require.NoError(t, binary.Write(&file, binary.LittleEndian, h))
	names := elf.Section64{Type: uint32(elf.SHT_STRTAB), Flags: uint64(elf.SHF_COMPRESSED), Off: 64 + 2*64, Size: uint64(packed.Len())}
	require.NoError(t, binary.Write(&file, binary.LittleEndian, []elf.Section64{{}, names}))
	file.Write(packed.Bytes())
	return layoutOf(t, func(w *tar.Writer) {
		name := "usr/lib/x86_64-linux-gnu/libcuda.so." + imagetest.NewDriver
		require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(file.Len())}))
		require.Value(w.Write(file.Bytes()))(t)
	})
}

// layoutOf writes an OCI layout with an image of one layer.
func layoutOf(t *testing.T, fill func(*tar.Writer)) string {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	fill(w)
	require.NoError(t, w.Close())
	l := require.Value(tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buf.Bytes())), nil }))(t)
	img := require.Value(mutate.AppendLayers(empty.Image, l))(t)
	config := require.Value(img.ConfigFile())(t)
	config.OS, config.Architecture = "linux", "amd64"
	img = require.Value(mutate.ConfigFile(img, config))(t)
	dir := filepath.Join(scratch(t), "image")
	out := require.Value(layout.Write(dir, empty.Index))(t)
	require.NoError(t, out.AppendImage(img))
	return dir
}

func freshDir(t *testing.T, name string) string {
	t.Helper()
	return filepath.Join(scratch(t), name)
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

// wholeBlobs checks that the content of every blob in a cache has the digest that is its name.
func wholeBlobs(t *testing.T, cache string) {
	t.Helper()
	dir := filepath.Join(cache, "blobs", "sha256")
	list := require.Value(os.ReadDir(dir))(t)
	names := make([]string, len(list))
	for n, d := range list {
		names[n] = d.Name()
	}
	if len(names) == 0 {
		return
	}
	for line := range strings.Lines(command{dir: dir, args: append([]string{"sha256sum"}, names...)}.want(t, 0).stdout) {
		if have, name, _ := strings.Cut(strings.TrimSpace(line), "  "); have != name {
			t.Errorf("blob %s of the cache has digest %s", name, have)
		}
	}
}
