package driver

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/packages"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/images/runfile"
)

// gdrcopy returns the members of an archive in the form that git makes of gdrcopy.
func gdrcopy() []tar.Header {
	file := func(name string, mode int64) tar.Header {
		return tar.Header{Name: "gdrcopy-2.5.2/" + name, Mode: mode, Typeflag: tar.TypeReg, Size: int64(len(name))}
	}
	return []tar.Header{
		{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": strings.Repeat("0", 40)}},
		{Name: "gdrcopy-2.5.2/", Typeflag: tar.TypeDir, Mode: 0o755},
		file("LICENSE", 0o644), file("src/gdrapi.c", 0o644), file("src/gdrdrv/Makefile", 0o644), file("src/gdrdrv/gdrdrv.c", 0o664),
		file("scripts/test_gdrdrv_HAVE_PROC_OPS.sh", 0o775),
	}
}

func sourceArchive(t *testing.T, ending string, members []tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range members {
		require.NoError(t, w.WriteHeader(&h))
		if h.Typeflag == tar.TypeReg {
			_ = require.Value(w.Write([]byte(strings.TrimPrefix(h.Name, "gdrcopy-2.5.2/"))[:h.Size]))(t)
		}
	}
	require.NoError(t, w.Close())
	return repotest.Compress(t, ending, b.Bytes())
}

func gdrdrv(url, sum string) recipe.Companion {
	return recipe.Companion{Name: driverinfo.GDRDrv, Version: "2.5.2", Licence: "MIT", File: &fetch.File{URL: url, SHA256: sum}}
}

// TestCompanionArchive: what the compile needs of an archive, at its place in the image, and nothing else; an
// archive that is not the pinned one is refused.
func TestCompanionArchive(t *testing.T) {
	t.Parallel()
	for _, ending := range []string{".gz", ".xz"} {
		data := sourceArchive(t, ending, gdrcopy())
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(data) }))
		t.Cleanup(server.Close)
		store := require.Value(fetch.OpenStore(t.TempDir()))(t)
		env := packages.Env{Store: store, Fetch: &fetch.Client{Store: store, Attempts: 1}}
		spool := require.Value(rootfs.NewSpool(t.TempDir()))(t)
		t.Cleanup(func() { _ = spool.Close() })
		step := progress.Observer(nil).Begin("t", "s")
		sum := sha256.Sum256(data)
		r := &recipe.Recipe{Companions: []recipe.Companion{gdrdrv(server.URL+"/v2.5.2.tar"+ending, hex.EncodeToString(sum[:]))}}
		tree := require.Value(ReadCompanions(t.Context(), env, r, spool, step))(t)
		var got []string
		for _, e := range tree.All() {
			if e.Kind == rootfs.File {
				got = append(got, fmt.Sprintf("%s %o", e.Path, e.Mode.Perm()))
			}
		}
		assert.Same(t, []string{
			"licenses/gdrdrv.txt 644", "usr/src/gdrdrv-2.5.2/scripts/test_gdrdrv_HAVE_PROC_OPS.sh 755",
			"usr/src/gdrdrv-2.5.2/src/gdrdrv/Makefile 644", "usr/src/gdrdrv-2.5.2/src/gdrdrv/gdrdrv.c 644",
		}, got)
		r.Companions[0] = gdrdrv(server.URL+"/other.tar"+ending, strings.Repeat("ab", 32))
		_, err := ReadCompanions(t.Context(), env, r, spool, step)
		assert.ErrorContains(t, err, "companion gdrdrv 2.5.2", strings.Repeat("ab", 32))
		r.Companions[0] = gdrdrv("http://127.0.0.1:1/gone.tar"+ending, strings.Repeat("cd", 32))
		_, err = ReadCompanions(t.Context(), env, r, spool, step)
		assert.ErrorContains(t, err, "driver-build fetch", "--companions")
	}
}

// TestHostileCompanion: nothing of an archive leaves the folder of the sources.
func TestHostileCompanion(t *testing.T) {
	t.Parallel()
	member := func(name string, kind byte) tar.Header {
		return tar.Header{Name: name, Typeflag: kind, Linkname: "/etc/passwd", Mode: 0o644}
	}
	for name, more := range map[string][]tar.Header{
		"link":      {member("gdrcopy-2.5.2/src/gdrdrv/link.h", tar.TypeSymlink)},
		"hard link": {member("gdrcopy-2.5.2/src/gdrdrv/link.h", tar.TypeLink)},
		"device":    {member("gdrcopy-2.5.2/scripts/null", tar.TypeChar)},
		"escape":    {member("gdrcopy-2.5.2/src/gdrdrv/../../../../etc/passwd", tar.TypeReg)},
		"absolute":  {member("/etc/passwd", tar.TypeReg)},
		"outside":   {member("../etc/passwd", tar.TypeReg)},
		"twice":     {member("gdrcopy-2.5.2/src/gdrdrv/gdrdrv.c", tar.TypeReg)},
	} {
		if err := takeArchive(t, sourceArchive(t, ".gz", append(gdrcopy(), more...))); !errors.Is(err, ErrContent) && !errors.Is(err, runfile.ErrUnsafe) {
			t.Errorf("%s: %v", name, err)
		}
	}
	whole := sourceArchive(t, ".gz", gdrcopy())
	for name, data := range map[string][]byte{
		"cut":     whole[:len(whole)/2],
		"changed": append([]byte("not gzip"), whole...),
		"empty":   nil,
	} {
		if err := takeArchive(t, data); err == nil {
			t.Errorf("%s: it was taken", name)
		}
	}
	require.NoError(t, takeArchive(t, whole))
}

// takeArchive reads an archive of gdrcopy.
func takeArchive(t testing.TB, data []byte) error {
	t.Helper()
	spool := require.Value(rootfs.NewSpool(t.TempDir()))(t)
	defer func() { _ = spool.Close() }()
	tree := rootfs.New(spool, nil)
	err := takeCompanionArchive(bytes.NewReader(data), nil, gdrdrv("https://example.com/a.tar.gz", ""), tree)
	for _, e := range tree.All() {
		if !strings.HasPrefix(e.Path+"/", "usr/src/gdrdrv-2.5.2/") && !strings.HasPrefix("usr/src/gdrdrv-2.5.2/", e.Path+"/") &&
			e.Path != "licenses" && e.Path != "licenses/gdrdrv.txt" {
			t.Errorf("the archive wrote %s", e.Path)
		}
	}
	return err
}

// FuzzCompanionArchive: no archive writes outside of the folder of the sources.
func FuzzCompanionArchive(f *testing.F) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range gdrcopy()[2:3] {
		h.Size = 0
		require.NoError(f, w.WriteHeader(&h))
	}
	require.NoError(f, w.Close())
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		_ = takeArchive(t, repotest.Compress(t, ".gz", data))
	})
}
