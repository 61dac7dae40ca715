package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/repotest"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/ci/testfile"
)

// TestXZPrograms: whatever the machine's xz program does, a build has the image of a machine without one, or
// says that the program is to blame. It is not parallel, because it sets PATH.
func TestXZPrograms(t *testing.T) {
	u := newUser(t)
	p := u.Archives["debian12"].Find("make", "amd64")
	p.Extra = map[string]string{"md5sums": "d41d8cd98f00b204e9800998ecf8427e  usr/share/make/large\n"} // its data are .xz now
	p.Files = append(p.Files, repotest.File{Name: "usr/share/make/large", Body: strings.Repeat("a line of a large file\n", 20_000)})
	u.Archives["debian12"].Publish()
	path, bin := os.Getenv("PATH"), t.TempDir()
	args := []string{"--os", "debian12", "--driver", newDriver, "--output", "oci:" + u.Path("dist")}
	build := func(ctx context.Context, script string) result {
		t.Helper()
		xz := filepath.Join(bin, "xz")
		_ = os.Remove(xz)
		if script != "" {
			testfile.Write(t, xz, "#!/bin/sh\nPATH="+path+"\n"+script+"\n")
		}
		return u.fresh(t).RunContext(ctx, t, args...)
	}
	t.Setenv("PATH", bin)
	want := build(t.Context(), "")
	want.Want(t, 0)
	for name, c := range map[string]struct {
		script, note string
		code         int
	}{
		"sound":           {`exec xz "$@"`, "", 0},
		"dies":            {"echo no more >&2; exit 1", "everything more is decompressed in Go", 0},
		"is no program":   {"exec /nonexistent", "everything more is decompressed in Go", 0},
		"is killed":       {"kill -9 $$", "everything more is decompressed in Go", 0},
		"stops half way":  {`xz "$@" | head -c 100000`, "everything more is decompressed in Go", 0},
		"writes too much": {`xz "$@"; cat /dev/zero`, "everything more is decompressed in Go", 0},
		"writes garbage":  {"cat /dev/zero", "repair it, or use --no-helpers", 5},
	} {
		r := build(t.Context(), c.script)
		r.Want(t, c.code, c.note)
		if c.code == 0 {
			assert.Equalf(t, want.Digest(t), r.Digest(t), "%s", name)
		}
		require.NoError(t, os.RemoveAll(u.Path("dist")))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	began := filepath.Join(bin, "began")
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(began); err == nil {
				cancel()
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	start := time.Now()
	r := build(ctx, ": >"+began+"; exec sleep 600")
	assert.Equalf(t, true, r.Code != 0 && time.Since(start) < 5*time.Minute, "a build that is cancelled while xz hangs: %d after %s", r.Code, time.Since(start))
}
