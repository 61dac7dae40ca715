package driverroot

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

const release = "6.1.0-38-amd64"

func TestAddModules(t *testing.T) {
	needRoot(t)
	r := testRoot(t)
	s := mounted(t, r)
	made := t.TempDir()
	var files []Module
	for _, name := range []string{"nvidia", "nvidia-uvm", "nvidia-modeset", "nvidia-drm"} {
		write(t, made, name+".ko", "\x7fELF "+name, 0o644)
		files = append(files, Module{filepath.Join(made, name+".ko"), "digest of " + name})
	}
	check(t, s.AddModules(t.Context(), release, files))
	at := filepath.Join(r.Target, "lib/modules", release)
	got, err := os.ReadFile(filepath.Join(at, "modules.dep"))
	check(t, err)
	want := "updates/nvidia/nvidia-drm.ko: updates/nvidia/nvidia-modeset.ko updates/nvidia/nvidia.ko\n" +
		"updates/nvidia/nvidia-modeset.ko: updates/nvidia/nvidia.ko\nupdates/nvidia/nvidia-uvm.ko: updates/nvidia/nvidia.ko\nupdates/nvidia/nvidia.ko:\n"
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
	ko := filepath.Join(at, "updates/nvidia/nvidia.ko")
	old := time.Unix(1, 0)
	check(t, os.Chtimes(ko, old, old))
	check(t, s.AddModules(t.Context(), release, files))
	if st, err := os.Stat(ko); err != nil || !st.ModTime().Equal(old) {
		t.Errorf("the same modules were written again: %v", err)
	}
	files[0].SHA256 = "another"
	check(t, s.AddModules(t.Context(), release, files))
	if st, err := os.Stat(ko); err != nil || st.ModTime().Equal(old) {
		t.Errorf("another module was not written: %v", err)
	}
	check(t, os.Truncate(ko, 1))
	check(t, s.AddModules(t.Context(), release, files))
	if st, err := os.Stat(ko); err != nil || st.Size() == 1 {
		t.Errorf("a damaged module was not written: %v", err)
	}
	if err := s.AddModules(t.Context(), "../../etc", files); err == nil {
		t.Error("a release that is a path was accepted")
	}
	files[0].Path = filepath.Join(made, "none.ko")
	if err := s.AddModules(t.Context(), release, files); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// The host's /lib/modules in the container must not be written to.
func TestAddModulesLeavesTheHostAlone(t *testing.T) {
	needRoot(t)
	r := testRoot(t)
	r.Storage = ""
	over := filepath.Join(r.Image, "usr/lib/modules")
	check(t, os.MkdirAll(over, 0o755))
	check(t, unix.Mount("host", over, "tmpfs", 0, ""))
	t.Cleanup(func() { _ = unix.Unmount(over, unix.MNT_DETACH) })
	s := mounted(t, r)
	made := t.TempDir()
	write(t, made, "nvidia.ko", "\x7fELF", 0o644)
	check(t, s.AddModules(t.Context(), release, []Module{{filepath.Join(made, "nvidia.ko"), "x"}}))
	if names := list(t, over); len(names) > 0 {
		t.Errorf("written to the host: %q", names)
	}
	if _, err := os.Stat(filepath.Join(r.Target, "lib/modules", release, "updates/nvidia/nvidia.ko")); err != nil {
		t.Error(err)
	}
}

func TestSetFirmwarePath(t *testing.T) {
	t.Parallel()
	existing := t.TempDir()
	for name, c := range map[string]struct{ before, after, undone string }{
		"empty":                  {"\n", "/run/nvidia/driver/lib/firmware", "\x00"},
		"ours from before":       {"/run/nvidia/driver/lib/firmware\n", "/run/nvidia/driver/lib/firmware\n", "\x00"},
		"below the target":       {"/run/nvidia/driver/usr/lib/firmware\n", "/run/nvidia/driver/lib/firmware", "\x00"},
		"a folder that is gone":  {"/run/gone/lib/firmware\n", "/run/nvidia/driver/lib/firmware", "\x00"},
		"somebody else's folder": {existing + "\n", existing + "\n", existing + "\n"},
	} {
		sys := t.TempDir()
		const file = "module/firmware_class/parameters/path"
		write(t, sys, file, c.before, 0o644)
		undo, err := SetFirmwarePath(sys, "/run/nvidia/driver")
		if foreign, ok := errors.AsType[*ForeignPathError](err); ok != (c.before == c.undone) || (err != nil && foreign == nil) {
			t.Errorf("%s: %v", name, err)
		}
		now := func() string { text, _ := os.ReadFile(filepath.Join(sys, file)); return string(text) }
		if now() != c.after {
			t.Errorf("%s: %q, want %q", name, now(), c.after)
		}
		check(t, undo())
		if now() != c.undone {
			t.Errorf("%s: undone to %q, want %q", name, now(), c.undone)
		}
		check(t, undo())
	}
	undo, err := SetFirmwarePath(t.TempDir(), "/run/nvidia/driver")
	if !errors.Is(err, fs.ErrNotExist) || undo() != nil {
		t.Errorf("a kernel without the parameter: %v", err)
	}
}

func TestUndoKeepsWhatSomebodySetMeanwhile(t *testing.T) {
	t.Parallel()
	sys := t.TempDir()
	const file = "module/firmware_class/parameters/path"
	write(t, sys, file, "\n", 0o644)
	undo, err := SetFirmwarePath(sys, "/run/nvidia/driver")
	check(t, err)
	write(t, sys, file, "/theirs\n", 0o644)
	check(t, undo())
	if text, _ := os.ReadFile(filepath.Join(sys, file)); string(text) != "/theirs\n" {
		t.Errorf("changed to %q", text)
	}
}

func TestServeFirmware(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(string){
		"split lib":       func(dir string) { check(t, os.MkdirAll(dir+"/lib", 0o755)) },
		"merged lib":      func(dir string) { link(t, dir, "usr/lib", "lib"); check(t, os.MkdirAll(dir+"/usr/lib", 0o755)) },
		"an absolute one": func(dir string) { link(t, dir, "/"+firmwareDir+"/"+testVersion, "lib/firmware/nvidia/"+testVersion) },
	} {
		dir := t.TempDir()
		prepare(dir)
		write(t, dir, firmwareDir+"/"+testVersion+"/gsp.bin", "x", 0o644)
		root, err := os.OpenRoot(dir)
		check(t, err)
		check(t, serveFirmware(root, testVersion))
		check(t, serveFirmware(root, testVersion))
		if _, err := root.Stat("lib/firmware/nvidia/" + testVersion + "/gsp.bin"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		root.Close()
	}
}

func FuzzParseMarker(f *testing.F) {
	f.Add([]byte(`{"schema":1,"version":"535.1","id":"00","staged":"2026-01-01T00:00:00Z","files":1,"bytes":2,"checked":{"a":1}}`))
	f.Add([]byte(`{"schema":1,"checked":{"../x":-1}} x`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if m, err := parseMarker(text); err == nil && (len(m.Checked) == 0 || m.Schema != markerSchema) {
			t.Errorf("accepted %+v", m)
		}
	})
}
