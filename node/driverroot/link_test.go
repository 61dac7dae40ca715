package driverroot

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/conformance/inside"
	"github.com/driver-container/driver-container/ci/gate"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/ci/testfile"
)

// linkRoot is a testRoot that is served by a link. In these tests only the part of a privileged container
// mounts anything.
func linkRoot(t *testing.T) Root {
	t.Helper()
	r := testRoot(t)
	r.NoMounts = true
	return r
}

func leadTo(t *testing.T, r Root) Staged {
	t.Helper()
	s := require.Value(r.Stage(t.Context()))(t)
	require.NoError(t, s.Link(t.Context()))
	return s
}

func TestLink(t *testing.T) {
	gate.Root(t, "it mounts")
	r := linkRoot(t)
	s := leadTo(t, r)
	assert.Equalf(t, s.Dir, require.Value(r.Linked())(t), "links to")
	if found := inside.Lint(s.Dir, r.Version, true); len(found) > 0 {
		t.Errorf("findings: %q", found)
	}
	if text, err := os.ReadFile(filepath.Join(r.Target, "lib/firmware/nvidia", testVersion, "gsp_ga10x.bin")); string(text) != "firmware" {
		t.Errorf("firmware by the target's path: %q, %v", text, err)
	}
	if ok, why := r.AdoptableLink(); !ok || why != "" {
		t.Errorf("adoptable: %v, %s", ok, why)
	}
	if len(points(t, r)) > 0 {
		t.Errorf("mounts: %q", points(t, r))
	}
	if got := testfile.List(t, filepath.Dir(r.Target)); len(got) != 1 {
		t.Errorf("beside the link: %q", got)
	}
	require.NoError(t, s.Link(t.Context())) // a second call
	require.NoError(t, r.Prune(0))
	// Another version replaces it atomically; a consumer that has the older root open keeps it.
	old := require.Value(os.OpenRoot(r.Target))(t)
	defer old.Close()
	newer := r
	newer.ID = strings.Repeat("a", 64)
	second := leadTo(t, newer)
	assert.Equalf(t, second.Dir, require.Value(r.Linked())(t), "links to")
	require.NoError(t, checkLibraries(old, testVersion))
	if ok, why := r.AdoptableLink(); !ok || !strings.Contains(why, "another build") {
		t.Errorf("adoptable: %v, %s", ok, why)
	}
	require.NoError(t, r.Prune(0)) // ours is the older one: the newer one is linked
	if ok, why := newer.AdoptableLink(); !ok {
		t.Errorf("pruned what is served: %s", why)
	}
	require.NoError(t, newer.Unlink())
	require.NoError(t, newer.Unlink())
	if got := testfile.List(t, filepath.Dir(r.Target)); len(got) != 0 {
		t.Errorf("left: %q", got)
	}
	if ok, why := newer.AdoptableLink(); ok || why == "" {
		t.Error("adopted nothing")
	}
}

// What may be in the place of the link.
func TestLinkReplaces(t *testing.T) {
	gate.Root(t, "it mounts")
	for name, c := range map[string]struct {
		put  func(t *testing.T, target string)
		want error
	}{
		"an empty folder": {func(t *testing.T, target string) { t.Helper(); require.NoError(t, os.Mkdir(target, 0o755)) }, nil},
		"the kubelet's": {func(t *testing.T, target string) {
			t.Helper()
			require.NoError(t, os.MkdirAll(target+"/lib/firmware", 0o755))
		}, nil},
		"a dangling link": {func(t *testing.T, target string) {
			t.Helper()
			testfile.Write(t, filepath.Dir(target)+"/driver", "-> /x/roots/470.256.02-0123456789ab")
		}, nil},
		"what a kill left": {func(t *testing.T, target string) {
			t.Helper()
			require.NoError(t, os.MkdirAll(filepath.Dir(target)+"/.driver.tmp/lib", 0o755))
		}, nil},
		"somebody's files": {func(t *testing.T, target string) { t.Helper(); testfile.Write(t, target+"/usr/lib/libcuda.so", "x") }, ErrNotOurs},
		"somebody's link": {func(t *testing.T, target string) {
			t.Helper()
			testfile.Write(t, filepath.Dir(target)+"/driver", "-> /opt/driver")
		}, ErrNotOurs},
		"a file": {func(t *testing.T, target string) { t.Helper(); testfile.Write(t, filepath.Dir(target)+"/driver", "x") }, ErrNotOurs},
		"a folder of a host": {func(t *testing.T, target string) {
			t.Helper()
			testfile.Write(t, filepath.Dir(target)+"/.driver.tmp/x", "x")
		}, ErrNotOurs},
	} {
		t.Run(name, func(t *testing.T) {
			gate.Root(t, "it mounts")
			r := linkRoot(t)
			c.put(t, r.Target)
			s := require.Value(r.Stage(t.Context()))(t)
			if err := s.Link(t.Context()); !errors.Is(err, c.want) {
				t.Fatalf("%v, want %v", err, c.want)
			}
			got := require.Value(r.Linked())(t)
			assert.Equalf(t, c.want == nil, got == s.Dir, "links to %q", got)
			if left := testfile.List(t, filepath.Dir(r.Target)); c.want == nil && len(left) != 1 {
				t.Errorf("left: %q", left)
			}
		})
	}
}

func TestLinkRefuses(t *testing.T) {
	gate.Root(t, "it mounts")
	r := linkRoot(t)
	s := require.Value(r.Stage(t.Context()))(t)
	for _, edit := range []func(*Root){func(r *Root) { r.HostDev = false }, func(r *Root) { r.Storage = "" }} {
		other := s
		edit(&other.Root)
		assert.ErrorIs(t, other.Link(t.Context()), ErrNotLinkable)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, s.Link(ctx), context.Canceled)
	// A privileged container's mount stays.
	mount := r
	mount.NoMounts = false
	require.NoError(t, Staged{Root: mount, Dir: s.Dir}.Mount(t.Context()))
	var mounted *MountedError
	if err := s.Link(t.Context()); !errors.As(err, &mounted) {
		t.Error(err)
	}
	require.Value(mount.Unmount(t.Context()))(t)
	require.NoError(t, s.Link(t.Context()))
	// A root in which somebody created device files is not usable for consumers that look at the host's.
	testfile.Write(t, s.Dir+"/dev/nvidia0", "")
	if ok, why := r.AdoptableLink(); ok || !strings.Contains(why, "folder dev") {
		t.Errorf("%v, %s", ok, why)
	}
	assert.ErrorIs(t, s.Link(t.Context()), unix.ENOTEMPTY)
	elsewhere := r
	elsewhere.Storage = t.TempDir()
	if ok, why := elsewhere.AdoptableLink(); ok || !strings.Contains(why, "not in the storage") {
		t.Errorf("%v, %s", ok, why)
	}
	require.NoError(t, os.RemoveAll(s.Dir))
	if ok, why := r.AdoptableLink(); ok || !strings.Contains(why, "cannot be read") {
		t.Errorf("%v, %s", ok, why)
	}
}

// A linked root becomes a mounted one and vice versa, as when a release changes its values.
func TestLinkAndMountTakeTurns(t *testing.T) {
	gate.Root(t, "it mounts")
	r := linkRoot(t)
	leadTo(t, r)
	mount := r
	mount.NoMounts = false
	require.NoError(t, mount.Unlink())
	mounted(t, mount)
	if ok, why := mount.Adoptable(); !ok {
		t.Error(why)
	}
	require.Value(mount.Unmount(t.Context()))(t)
	leadTo(t, r)
}
