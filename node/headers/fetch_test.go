package headers

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

// list returns every file of the fetched headers, links with their targets.
func (i *image) list() (out []string) {
	_ = filepath.WalkDir(i.into, func(name string, d fs.DirEntry, err error) error { // the folder may be missing
		if err != nil || d.IsDir() || name == i.into+"/lib" {
			return err
		}
		rel, _ := filepath.Rel(i.into, name)
		if target, err := os.Readlink(name); err == nil {
			rel += " -> " + target
		}
		out = append(out, rel)
		return nil
	})
	if left, err := os.ReadDir(i.into + ".new"); err == nil {
		i.t.Errorf("left %v", left)
	}
	return out
}

var debianTree = []string{
	"usr/lib/linux-kbuild-6.1/scripts/basic/fixdep",
	"usr/lib/modules/6.1.0-38-amd64/build -> /usr/src/linux-headers-6.1.0-38-amd64",
	"usr/lib/modules/6.1.0-38-amd64/source -> /usr/src/linux-headers-6.1.0-38-common",
	"usr/src/linux-headers-6.1.0-38-amd64/.config",
	"usr/src/linux-headers-6.1.0-38-amd64/Makefile",
	"usr/src/linux-headers-6.1.0-38-amd64/include/config/kernel.release",
	"usr/src/linux-headers-6.1.0-38-amd64/include/generated/utsrelease.h",
	"usr/src/linux-headers-6.1.0-38-amd64/scripts -> ../../lib/linux-kbuild-6.1/scripts",
	"usr/src/linux-headers-6.1.0-38-common/include/linux/kernel.h",
	"usr/src/linux-headers-6.1.0-38-common/scripts -> ../../lib/linux-kbuild-6.1/scripts",
	"usr/src/linux-kbuild-6.1 -> ../lib/linux-kbuild-6.1",
}

func TestFetch(t *testing.T) {
	t.Parallel()
	a := newArchive(t, debian(testRelease, "6.1.147-1")...).start()
	i := newImage(t, a.server.URL)
	want := []string{"linux-kbuild-6.1 6.1.147-1", "linux-headers-6.1.0-38-common 6.1.147-1", "linux-headers-6.1.0-38-amd64 6.1.147-1"}
	assert.Same(t, want, require.Value(i.fetch())(t))
	assert.Same(t, debianTree, i.list())
	fixdep := filepath.Join(i.into, "lib/linux-kbuild-6.1/scripts/basic/fixdep")
	fi, err := os.Stat(fixdep)
	if err != nil || fi.Mode() != 0o755 || fi.ModTime().Unix() != 1700000000 {
		t.Errorf("fixdep: %v, %v", fi, err)
	}
	assert.Equalf(t, false, strings.Contains(i.said.String(), "warning"), "it said:\n%s", i.said.String())
	// The second call downloads nothing that is in the store, replaces what was there, and takes no remains of a killed one for its own.
	testfile.Write(t, i.into+"/usr/src/old", "old")
	testfile.Write(t, i.into+".new/usr/src/half", "half")
	assert.Same(t, want, require.Value(i.fetch())(t))
	assert.Same(t, debianTree, i.list())
	assert.Equalf(t, 1, a.count("/debian/pool/linux-kbuild-6.1_6.1.147-1_amd64.deb"), "downloaded")
}

// TestDamagedStore: whatever a disk damages in the store, the start after the one that sees it has the headers.
func TestDamagedStore(t *testing.T) {
	t.Parallel()
	a := newArchive(t, debian(testRelease, "6.1.147-1")...).start()
	i := newImage(t, a.server.URL)
	require.Value(i.fetch())(t)
	blobs := require.Value(filepath.Glob(i.options().Store + "/blobs/*/*"))(t)
	assert.Equalf(t, 5, len(blobs), "files in the store: a Release file, an index and three packages")
	seen := 0
	for _, blob := range blobs {
		content, err := os.ReadFile(blob)
		if errors.Is(err, os.ErrNotExist) {
			continue // what healed another file has replaced it
		}
		require.NoError(t, err)
		content[len(content)/2] ^= 1
		require.NoError(t, os.Chmod(blob, 0o600))
		require.NoError(t, os.WriteFile(blob, content, 0o600))
		_, err = i.fetch()
		if err != nil {
			seen++
			require.Value(i.fetch())(t)
		}
		assert.Same(t, debianTree, i.list())
	}
	assert.Equalf(t, true, seen >= 3, "%d damaged files failed a start: at least the packages", seen)
}

func TestUnavailable(t *testing.T) {
	t.Parallel()
	var debs []repotest.Deb
	debs = append(debs, debian("6.1.0-37-amd64", "1")...)
	debs = append(debs, repotest.Deb{Control: "Package: linux-headers-amd64\nVersion: 2\nArchitecture: amd64\nDepends: linux-headers-6.12.9-amd64 (= 2)"})
	a := newArchive(t, debs...).start()
	i := newImage(t, a.server.URL)
	e := require.ErrorAs[*UnavailableError](t, assert.Err(i.fetch()))
	want := &UnavailableError{
		Release: testRelease, Package: "linux-headers-6.1.0-38-amd64", Looked: []string{a.server.URL + "/debian bookworm main"},
		Newest: "6.12.9-amd64",
	}
	assert.Same(t, want, e)
	assert.ErrorContains(t, e, "6.1.0-38-amd64", "snapshot archives", "its /usr at /host/usr", "image with modules",
		"there are headers for 6.12.9-amd64")
}

func TestUnavailableBeforeAsking(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*image, *Options)
		want   string
	}{
		{"release with a slash", func(_ *image, o *Options) { o.Release = "../../x" }, "cannot be the name of a kernel of debian12"},
		{"no sources", func(i *image, _ *Options) { i.write("etc/apt/sources.list", "") }, "none is configured for architecture amd64"},
		{"bad sources", func(i *image, _ *Options) { i.write("etc/apt/sources.list", "debian http://x y z\n") }, "etc/apt/sources.list:1"},
		{"other architecture's sources", func(i *image, _ *Options) { i.write("etc/apt/sources.list", "deb [arch=arm64] http://x y z\n") }, "none is configured for architecture amd64"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			i := newImage(t)
			o := i.options()
			test.change(i, &o)
			assert.Contains(t, require.ErrorAs[*UnavailableError](t, assert.Err(Fetch(t.Context(), o))).Error(), test.want)
		})
	}
	i := newImage(t)
	i.write("etc/os-release", "ID=plan9\n")
	assert.ErrorContainsf(t, assert.Err(i.fetch()), "plan9", "unknown system")
}

// A repository that cannot be used does not hide the others.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	good := newArchive(t, debian(testRelease, "1")...).start()
	forged := newArchive(t, debian(testRelease, "2")...)
	forged.Signer = repotest.Key("stranger", 0)
	forged.start()
	gone := newArchive(t)
	gone.start()
	gone.server.Close()
	expired := newArchive(t, debian(testRelease, "3")...)
	expired.ValidUntil = time.Date(2020, 6, 20, 10, 0, 0, 0, time.UTC)
	expired.start()
	t.Run("one is good", func(t *testing.T) {
		t.Parallel()
		i := newImage(t, gone.server.URL, forged.server.URL, good.server.URL, expired.server.URL)
		got, err := i.fetch()
		if err != nil || len(got) != 3 || got[2] != "linux-headers-6.1.0-38-amd64 1" {
			t.Fatal(got, err)
		}
		for _, part := range []string{gone.server.URL + "/debian bookworm", forged.server.URL, "no trusted signature", expired.server.URL, "expired"} {
			assert.Containsf(t, i.said.String(), part, "is not in what it said")
		}
	})
	t.Run("none is good", func(t *testing.T) {
		t.Parallel()
		i := newImage(t, gone.server.URL, forged.server.URL, expired.server.URL)
		e := require.ErrorAs[*UnavailableError](t, assert.Err(i.fetch()))
		if len(e.Failed) != 3 || len(e.Looked) != 0 || !strings.Contains(e.Error(), "unreachable") {
			t.Errorf("%#v", e)
		}
	})
	t.Run("expired, and allowed as machines that use snapshots do", func(t *testing.T) {
		t.Parallel()
		i := newImage(t, expired.server.URL)
		i.write("etc/apt/apt.conf.d/99snapshot", "Acquire::Check-Valid-Until \"false\";\n")
		if got, err := i.fetch(); err != nil || got[2] != "linux-headers-6.1.0-38-amd64 3" {
			t.Errorf("%v, %v", got, err)
		}
	})
}

// TestIndexLeftOut: behind a good Release file an index that cannot be read, whatever is wrong with it, hides
// neither the other indexes of its repository nor other repositories.
func TestIndexLeftOut(t *testing.T) {
	t.Parallel()
	for name, spoil := range spoilt {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			good := newArchive(t, debian(testRelease, "1")...).start()
			bad := newArchive(t, debian(testRelease, "2")...)
			bad.Publish()
			bad.spoil("binary-amd64/Packages", spoil)
			bad.server.Start()
			i := newImage(t, bad.server.URL, good.server.URL)
			assert.Equal(t, "linux-headers-6.1.0-38-amd64 1", require.Value(i.fetch())(t)[2])
			fault := bad.server.URL + "/debian bookworm: index main/binary-amd64/Packages: "
			assert.Contains(t, i.said.String(), fault)
			i = newImage(t, bad.server.URL)
			e := require.ErrorAs[*UnavailableError](t, assert.Err(i.fetch()))
			assert.Equal(t, 0, len(e.Looked))
			assert.ErrorContains(t, e, "none of the package repositories can be used", fault)
		})
	}
	t.Run("a component that is not there", func(t *testing.T) {
		t.Parallel()
		a := newArchive(t, debian(testRelease, "1")...).start()
		i := newImage(t, a.server.URL)
		i.write("etc/apt/sources.list", "deb "+a.server.URL+"/debian bookworm main other\n")
		assert.Equal(t, 3, len(require.Value(i.fetch())(t)))
		assert.Contains(t, i.said.String(), `component "other" does not exist`)
	})
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	a := newArchive(t, debian(testRelease, "1")...)
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("the node stops")
	a.gate = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "-common") {
			cancel(reason)
			<-r.Context().Done()
			return false
		}
		return true
	}
	a.start()
	i := newImage(t, a.server.URL)
	begin := time.Now()
	_, err := Fetch(ctx, i.options())
	if !errors.Is(err, reason) || errors.As(err, new(*UnavailableError)) || time.Since(begin) > 30*time.Second {
		t.Errorf("%v after %s", err, time.Since(begin))
	}
	assert.Equalf(t, 0, len(i.list()), "left %v", i.list())
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	err := Options{Release: testRelease, Store: "/a", Into: "/b"}.explain(t.Context(), fmt.Errorf("write: %w", unix.ENOSPC))
	assert.ErrorContains(t, err, "free some space on the disk that holds /a, or the one that holds /b")
}

// The simplest repository for an isolated network: a folder with packages, Packages and Release, and no key.
func TestFlatFolder(t *testing.T) {
	t.Parallel()
	i := newImage(t)
	var index strings.Builder
	for _, d := range debian(testRelease, "1") {
		data := d.Bytes(t)
		name := d.Field("Package") + ".deb"
		i.write("repo/"+name, string(data))
		fmt.Fprintf(&index, "%s\nFilename: ./%s\nSize: %d\nSHA256: %x\n\n", d.Control, name, len(data), sha256.Sum256(data))
	}
	i.write("repo/Packages", index.String())
	i.write("repo/Release", fmt.Sprintf("Date: %s\nSHA256:\n %x %d Packages\n", time.Now().Add(-time.Hour).UTC().Format(time.RFC1123), sha256.Sum256([]byte(index.String())), index.Len()))
	i.write("etc/apt/sources.list", "deb [trusted=yes] file:"+i.dir+"/repo ./\n")
	assert.Equal(t, 3, len(require.Value(i.fetch())(t)))
	i.write("etc/apt/sources.list", "deb file:"+i.dir+"/repo ./\n")
	assert.Errorf(t, assert.Err(i.fetch()), "taken without a signature")
}
