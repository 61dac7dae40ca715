package driverroot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/node/logging/logtest"
	"github.com/driver-container/driver-container/node/mounttable"
)

// describe lists a tree with everything that a copy has to keep.
func describe(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	first := map[uint64]string{}
	check(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		var st unix.Stat_t
		check(t, unix.Lstat(p, &st))
		line := d.Type().String() + " " + time.Unix(st.Mtim.Unix()).UTC().Format(time.RFC3339Nano)
		line += strings.Join([]string{"", fs.FileMode(st.Mode & 0o7777).String(), itoa(st.Uid), itoa(st.Gid), itoa(uint32(st.Rdev))}, " ")
		if d.Type().IsRegular() {
			text, err := os.ReadFile(p)
			check(t, err)
			value := make([]byte, 64)
			n, _ := unix.Getxattr(p, "security.capability", value)
			line += " " + string(text) + " " + string(value[:max(n, 0)])
			if st.Nlink > 1 {
				if _, ok := first[st.Ino]; !ok {
					first[st.Ino] = rel
				}
				line += " linked with " + first[st.Ino]
			}
		}
		if target, err := os.Readlink(p); err == nil {
			line += " -> " + target
		}
		found[rel] = line
		return nil
	}))
	return found
}

func itoa(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

func TestStageCopiesFaithfully(t *testing.T) {
	needRoot(t)
	r := testRoot(t)
	at := func(name string) string { return filepath.Join(r.Image, name) }
	write(t, r.Image, "usr/bin/ping", "\x7fELF", 0o755)
	check(t, os.Chown(at("usr/bin/ping"), 12, 34))
	check(t, unix.Setxattr(at("usr/bin/ping"), "security.capability", []byte("\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"), 0))
	write(t, r.Image, "usr/bin/su", "\x7fELF", 0o4755)
	check(t, unix.Chmod(at("usr/bin/su"), 0o4755))
	check(t, os.Link(at("usr/bin/su"), at("usr/bin/su-again")))
	check(t, os.Link(at("usr/bin/su"), at("etc/su-elsewhere")))
	check(t, unix.Mknod(at("usr/pipe"), unix.S_IFIFO|0o640, 0))
	check(t, unix.Mknod(at("usr/null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	check(t, os.Lchown(at("lib"), 7, 8))
	check(t, os.Chmod(at("tmp"), os.ModeSticky|0o777))
	check(t, os.Chtimes(at("etc"), time.Unix(1, 5), time.Unix(1, 5)))
	write(t, r.Image, "usr/big", string(bytes.Repeat([]byte("0123456789abcdef"), 1<<17)), 0o600)
	volume := at("etc/hosts")
	check(t, unix.Mount("/dev/null", volume, "", unix.MS_BIND, "")) // the runtime's files cover the image's
	t.Cleanup(func() { _ = unix.Unmount(volume, unix.MNT_DETACH) })
	check(t, unix.Mount("proc", at("proc"), "proc", 0, ""))
	t.Cleanup(func() { _ = unix.Unmount(at("proc"), unix.MNT_DETACH) })

	s, err := r.Stage(t.Context())
	check(t, err)
	check(t, unix.Unmount(volume, 0))
	check(t, unix.Unmount(at("proc"), 0))
	want, got := describe(t, r.Image), describe(t, s.Dir)
	for name := range want {
		top, _, _ := strings.Cut(name, "/")
		gone := top == "dev" || top == "sys" || (top != name && (top == "run" || top == "tmp"))
		for _, dir := range []string{"usr/lib/gcc", "usr/share/doc", "usr/share/man"} {
			gone = gone || mounttable.AtOrBelow(name, dir)
		}
		if gone || name == "var/cache/apt" {
			delete(want, name)
		}
	}
	delete(got, markerPath)
	delete(got, unsettledPath)
	for _, dir := range []string{".", filepath.Dir(markerPath)} { // changed by the copy itself
		delete(got, dir)
		delete(want, dir)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if s.Dir != filepath.Join(r.Storage, "roots", testVersion+"-0123456789ab") || s.Reused {
		t.Errorf("staged: %+v", s)
	}
}

func TestStageReusesWhatIsComplete(t *testing.T) {
	needRoot(t)
	r := testRoot(t)
	first, err := r.Stage(t.Context())
	check(t, err)
	check(t, os.Remove(filepath.Join(r.Image, "usr/bin/nvidia-smi"))) // is not checked again
	again, err := r.Stage(t.Context())
	if err != nil || !again.Reused || again.Dir != first.Dir {
		t.Errorf("second: %+v, %v", again, err)
	}
	write(t, r.Image, "usr/bin/nvidia-smi", "\x7fELF smi", 0o755)
	write(t, first.Dir, "usr/lib/x86_64-linux-gnu/libcuda.so."+testVersion, "short", 0o644)
	check(t, first.Mount(t.Context()))
	if ok, why := r.Adoptable(); ok {
		t.Error("a root with a damaged library is adoptable")
	} else {
		contains(t, why, "libcuda")
	}
	third, err := r.Stage(t.Context())
	if err != nil || third.Reused {
		t.Errorf("after damage: %+v, %v", third, err)
	}
	if names := list(t, filepath.Dir(third.Dir)); len(names) != 2 { // the damaged one is mounted: kept
		t.Errorf("roots: %q", names)
	}
	check(t, r.Prune(0))
	if names := list(t, filepath.Dir(third.Dir)); len(names) != 2 {
		t.Errorf("pruned what is mounted: %q", names)
	}
	_, err = r.Unmount(t.Context())
	check(t, err)
	check(t, r.Prune(0))
	if diff := cmp.Diff([]string{filepath.Base(third.Dir)}, list(t, filepath.Dir(third.Dir))); diff != "" {
		t.Error(diff)
	}
}

func TestStageWithoutSpaceLeavesNothing(t *testing.T) {
	needRoot(t)
	r := testRoot(t)
	write(t, r.Image, "usr/lib/big", strings.Repeat("x", 3<<20), 0o644)
	check(t, os.MkdirAll(r.Storage, 0o755))
	check(t, unix.Mount("small", r.Storage, "tmpfs", 0, "size=1m"))
	t.Cleanup(func() { _ = unix.Unmount(r.Storage, unix.MNT_DETACH) })
	_, err := r.Stage(t.Context())
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("got %v", err)
	}
	contains(t, err.Error(), "make room")
	if names := list(t, filepath.Join(r.Storage, "roots")); len(names) > 0 {
		t.Errorf("left: %q", names)
	}
}

func TestStageStops(t *testing.T) {
	needRoot(t)
	r := testRoot(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("SIGTERM")
	cancel(why)
	if _, err := r.Stage(ctx); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
	if names := list(t, filepath.Join(r.Storage, "roots")); len(names) > 0 {
		t.Errorf("left: %q", names)
	}
}

func TestStageKilled(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	image(t, filepath.Join(dir, "image"))
	for i := range 24 {
		write(t, dir, "image/usr/lib/big"+itoa(uint32(i)), strings.Repeat("x", 1<<20), 0o644)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), stageChild+"="+dir)
	check(t, cmd.Start())
	roots := filepath.Join(dir, "storage/roots")
	waitFor(t, "a half made root", func() bool {
		found, _ := filepath.Glob(roots + "/.tmp-*/usr")
		return len(found) > 0
	})
	check(t, cmd.Process.Kill())
	_ = cmd.Wait()
	for _, name := range list(t, roots) {
		if !strings.HasPrefix(name, ".tmp-") {
			t.Fatalf("the kill left %q", name)
		}
	}
	r := Root{Image: dir + "/image", Storage: dir + "/storage", ID: testID, Version: testVersion, Log: logtest.New(t)}
	s, err := r.Stage(t.Context())
	if err != nil || s.Reused {
		t.Fatalf("next start: %+v, %v", s, err)
	}
	if diff := cmp.Diff([]string{filepath.Base(s.Dir)}, list(t, roots)); diff != "" {
		t.Error(diff)
	}
}

func TestStageRefuses(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]Root{
		"a version that is a path": {Version: "../x", ID: testID, Storage: "/nowhere"},
		"no identity":              {Version: testVersion, Storage: "/nowhere"},
	} {
		if _, err := r.Stage(t.Context()); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if s, err := (Root{Version: testVersion, Image: "/x"}).Stage(t.Context()); err != nil || s.Dir != "/x" {
		t.Errorf("without storage: %+v, %v", s, err)
	}
}

func TestStorageInsideTheImage(t *testing.T) {
	needRoot(t)
	r := testRoot(t)
	r.Storage = filepath.Join(r.Image, "var/lib/nvidia-driver")
	s, err := r.Stage(t.Context())
	check(t, err)
	if _, err := os.Stat(filepath.Join(s.Dir, "var/lib/nvidia-driver")); err == nil {
		t.Error("the storage was copied into itself")
	}
}

func TestPruneNeverEntersMounts(t *testing.T) {
	needRoot(t)
	r := testRoot(t)
	old := r
	old.ID = "ffff" + testID[4:]
	s, err := old.Stage(t.Context())
	check(t, err)
	_, err = r.Stage(t.Context())
	check(t, err)
	precious := t.TempDir()
	write(t, precious, "nvme0n1", "host's disk", 0o600)
	check(t, os.MkdirAll(filepath.Join(s.Dir, "dev"), 0o755))
	check(t, unix.Mount(precious, filepath.Join(s.Dir, "dev"), "", unix.MS_BIND, ""))
	check(t, r.Prune(0))
	if _, err := os.Stat(filepath.Join(precious, "nvme0n1")); err != nil {
		t.Fatal(err)
	}
	if err := r.removeTree(s.Dir); err == nil {
		t.Error("removed a tree with a mount in it")
	}
	check(t, unix.Unmount(filepath.Join(s.Dir, "dev"), 0))
	check(t, r.Prune(1))
	if names := list(t, filepath.Dir(s.Dir)); len(names) != 2 {
		t.Errorf("roots: %q", names)
	}
	check(t, r.Prune(0))
	if names := list(t, filepath.Dir(s.Dir)); len(names) != 1 {
		t.Errorf("roots: %q", names)
	}
	// Mounted after the list of mounts was read: the mount point and what is mounted there stay.
	late := filepath.Join(t.TempDir(), "late")
	write(t, late, "usr/lib/libcuda.so", "x", 0o644)
	check(t, os.Mkdir(filepath.Join(late, "dev"), 0o755))
	check(t, unix.Mount(precious, filepath.Join(late, "dev"), "", unix.MS_BIND, ""))
	if err := removeBare(late); !errors.Is(err, unix.EBUSY) {
		t.Errorf("removed a mount point: %v", err)
	}
	if _, err := os.Stat(filepath.Join(precious, "nvme0n1")); err != nil {
		t.Fatal(err)
	}
	check(t, unix.Unmount(filepath.Join(late, "dev"), 0))
}

// TestNothingRemovesDeviceFiles leads a root with the host's /dev in it through its whole life: every way
// that takes it down or away leaves the device files.
func TestNothingRemovesDeviceFiles(t *testing.T) {
	needRoot(t)
	r := testRoot(t)
	node := filepath.Join(r.Image, "dev/nvidia0")
	write(t, r.Image, "dev/nvidia0", "", 0o600)
	steps := []struct {
		name string
		do   func() error
	}{
		{"mount", func() error { mounted(t, r); return nil }},
		{"adopt", func() error { return r.Refresh(t.Context()) }},
		{"prune while it is mounted", func() error { next := r; next.ID = "ffff" + testID[4:]; return next.Prune(0) }},
		{"a link in its place", func() error {
			s, err := r.Stage(t.Context())
			check(t, err)
			if err := s.Link(t.Context()); !errors.As(err, new(*MountedError)) {
				return fmt.Errorf("linked: %w", err)
			}
			return nil
		}},
		{"unmount", func() error { _, err := r.Unmount(t.Context()); return err }},
		{"prune", func() error { next := r; next.ID = "ffff" + testID[4:]; return next.Prune(0) }},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
		if _, err := os.Stat(node); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
	}
	if names := list(t, filepath.Join(r.Storage, rootsDir)); len(names) > 0 {
		t.Errorf("left: %q", names)
	}
}
