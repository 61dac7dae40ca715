package driverroot

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSettle(t *testing.T) {
	needRoot(t)
	r := testRoot(t)
	check(t, r.Settle(t.Context())) // there is no root
	s, err := r.Stage(t.Context())
	check(t, err)
	file := filepath.Join(s.Dir, unsettledPath)
	if again, err := r.Stage(t.Context()); err != nil || !again.Reused {
		t.Errorf("in the same boot: %+v, %v", again, err)
	}

	// The machine goes down before Settle.
	check(t, os.WriteFile(file, []byte("another boot"), 0o644))
	check(t, r.Settle(t.Context()))
	if _, err := os.Stat(file); err != nil {
		t.Errorf("what an earlier boot left passes for complete: %v", err)
	}
	check(t, s.Mount(t.Context()))
	if ok, why := r.Adoptable(); ok {
		t.Error("it can be adopted")
	} else {
		contains(t, why, "went down")
	}
	_, err = r.Unmount(t.Context())
	check(t, err)
	if again, err := r.Stage(t.Context()); err != nil || again.Reused {
		t.Errorf("in the next boot: %+v, %v", again, err)
	}

	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("SIGTERM")
	cancel(why)
	if err := r.Settle(ctx); err != nil && !errors.Is(err, why) { // the sync may end before the check of ctx
		t.Errorf("stopped: %v", err)
	}
	check(t, r.Settle(t.Context()))
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after the wait: %v", err)
	}
	if again, err := r.Stage(t.Context()); err != nil || !again.Reused {
		t.Errorf("after the wait: %+v, %v", again, err)
	}
}

// Modules that the root has from the image are linked, and the remains of an earlier attempt are not written
// to.
func TestAddModulesLinks(t *testing.T) {
	needRoot(t)
	r := testRoot(t)
	dir := t.TempDir()
	from := filepath.Join(dir, "nvidia.ko")
	write(t, dir, "nvidia.ko", "module", 0o644)
	s, err := r.Stage(t.Context())
	check(t, err)
	inRoot := filepath.Join(s.Dir, from)
	write(t, s.Dir, from, "module", 0o644)
	st, err := os.Stat(from)
	check(t, err)
	check(t, os.Chtimes(inRoot, st.ModTime(), st.ModTime()))
	check(t, os.Remove(filepath.Join(s.Dir, "usr/bin/kmod")))
	check(t, os.Remove(filepath.Join(s.Dir, "usr/sbin/modprobe")))
	const release = "6.1.0-1-amd64"
	to := filepath.Join(s.Dir, "lib/modules", release, "updates/nvidia/nvidia.ko")
	check(t, os.MkdirAll(filepath.Dir(to), 0o755))
	check(t, os.Link(inRoot, to+".tmp")) // an attempt that was killed
	for _, sum := range []string{"1", "2"} {
		check(t, s.AddModules(t.Context(), release, []Module{{Path: from, SHA256: sum}}))
		var st unix.Stat_t
		check(t, unix.Stat(to, &st))
		if st.Nlink != 2 || !isSameFile(inRoot, to) {
			t.Errorf("not linked: %d names", st.Nlink)
		}
	}
	write(t, dir, "nvidia.ko", "signed module", 0o644) // differs from the image's
	check(t, s.AddModules(t.Context(), release, []Module{{Path: from, SHA256: "3"}}))
	if text, err := os.ReadFile(to); err != nil || string(text) != "signed module" {
		t.Errorf("%q, %v", text, err)
	}
	if text, err := os.ReadFile(inRoot); err != nil || string(text) != "module" {
		t.Errorf("the image's module is %q, %v", text, err)
	}
}
