package main

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/repotest"
	"github.com/driver-container/driver-container/ci/testfile"
)

// TestXZPrograms: a build says so if the machine's xz program is to blame for its end, and does not wait for one
// that hangs once it is cancelled. It is not parallel, because it sets PATH.
func TestXZPrograms(t *testing.T) {
	u := newUser(t)
	p := u.Archives["debian12"].Find("make", "amd64")
	p.Extra = map[string]string{"md5sums": "d41d8cd98f00b204e9800998ecf8427e  usr/share/make/large\n"} // its data are .xz now
	random, body := rand.New(rand.NewPCG(1, 2)), make([]byte, 200_000)                                 // large enough for the program
	for i := range body {
		body[i] = byte(random.Uint32())
	}
	p.Files = append(p.Files, repotest.File{Name: "usr/share/make/large", Body: string(body)})
	u.Archives["debian12"].Publish()
	path, bin := os.Getenv("PATH"), t.TempDir()
	args := []string{"--os", "debian12", "--driver", newDriver, "--output", "oci:" + u.Path("dist")}
	build := func(ctx context.Context, script string) result {
		t.Helper()
		xz := filepath.Join(bin, "xz")
		_ = os.Remove(xz)
		testfile.Write(t, xz, "#!/bin/sh\nPATH="+path+"\n"+script+"\n")
		return u.fresh(t).RunContext(ctx, t, args...)
	}
	t.Setenv("PATH", bin)
	for _, script := range []string{"echo no more >&2; exit 1", "kill -9 $$"} {
		build(t.Context(), script).Want(t, 5, "repair the program or use --no-helpers")
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
