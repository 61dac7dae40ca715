package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/cache"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// state is a guest that was stopped: its disk and its memory, which restored guests share and do not change.
type state struct {
	base base
	dir  string // disk.qcow2, memory
	key  string
}

// stateRecipe is part of the states' keys: increase it when something changes that is not in the keys
// otherwise.
const stateRecipe = "1"

// readyState returns the guest with its node Ready and no images.
func readyState(t testing.TB, r *registry) state {
	t.Helper()
	b := makeBase(t)
	version, _, _ := strings.Cut(tool.Must(t, "qemu-system-x86_64", "--version"), "\n")
	s := state{base: b, key: require.Value(cache.Key(append(hardware(), stateRecipe, version, b.key)))(t)}
	s.dir = cached(t, "ready", s.key, func(dir string) {
		require.NoError(t, os.MkdirAll(dir, 0o755))
		disk := overlay(t, filepath.Join(b.dir, "root.ext4"), "raw", dir)
		begin := time.Now()
		c := &Cluster{t: t, base: b, registry: r, machine: startMachine(t, b, disk, r.port, nil)}
		defer c.reportFailure()
		c.connect()
		c.waitNode(bootLimit)
		t.Logf("cluster: from the start of QEMU to the node being Ready: %s", time.Since(begin).Round(time.Second))
		c.save(dir)
	})
	return s
}

// pulledState returns that state with the images on the node.
func pulledState(t testing.TB, r *registry) (state, []pulled) {
	t.Helper()
	ready := readyState(t, r)
	list := images(t, ready.base, r)
	texts := []string{ready.key}
	for _, p := range list {
		texts = append(texts, p.ref, p.digest)
	}
	s := state{base: ready.base, key: require.Value(cache.Key(texts))(t)}
	s.dir = cached(t, "pulled", s.key, func(dir string) {
		require.NoError(t, os.MkdirAll(dir, 0o755))
		from, disk := latestPulled(t, ready), filepath.Join(dir, "disk.qcow2")
		c := restore(t, from, r, dir)
		defer c.reportFailure()
		for _, p := range list {
			c.pull(p.ref)
		}
		c.save(dir)
		if from.dir != ready.dir { // rebased, so that the state does not depend on one that may be removed first
			tool.Must(t, "qemu-img", "rebase", "-q", "-F", "qcow2", "-b", filepath.Join(ready.dir, "disk.qcow2"), disk)
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, readyFile), []byte(ready.key), 0o644))
	})
	return s, list
}

// pull lets the node pull "NAME:TAG" from the registry.
func (c *Cluster) pull(ref string) {
	c.t.Helper()
	begin := time.Now()
	c.NodeFor(pullLimit, "ctr -n k8s.io images pull --hosts-dir /etc/containerd/certs.d "+guestRegistry+"/"+ref)
	c.t.Logf("cluster: pulled %s in %s", ref, time.Since(begin).Round(100*time.Millisecond))
}

// readyFile names the state from which a state with images was made.
const readyFile = "ready"

// latestPulled returns the newest state, with any images, that was made from the given state; if there is
// none, the given state. If images share most of their layers with older ones, the node pulls only the other
// layers.
func latestPulled(t testing.TB, ready state) state {
	t.Helper()
	dirs := require.Value(filepath.Glob(filepath.Join(cacheDir(t), "pulled-*")))(t)
	latest, at := ready, time.Time{}
	for _, dir := range dirs {
		key, err := os.ReadFile(filepath.Join(dir, readyFile))
		st, err2 := os.Stat(dir)
		if err == nil && err2 == nil && string(key) == ready.key && st.ModTime().After(at) {
			latest.dir, at = dir, st.ModTime()
		}
	}
	return latest
}

// overlay makes a disk in a folder that holds the differences from another disk.
func overlay(t testing.TB, backing, format, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "disk.qcow2")
	tool.Must(t, "qemu-img", "create", "-q", "-f", "qcow2", "-F", format, "-b", backing, path)
	return path
}

// restore starts a guest from a state; its writes go to a new disk in the folder.
func restore(t testing.TB, s state, r *registry, dir string) *Cluster {
	t.Helper()
	memory := require.Value(os.Open(filepath.Join(s.dir, "memory")))(t)
	defer memory.Close()
	c := &Cluster{t: t, base: s.base, registry: r}
	c.machine = startMachine(t, s.base, overlay(t, filepath.Join(s.dir, "disk.qcow2"), "qcow2", dir), r.port, memory)
	require.NoError(t, c.machine.monitor.restored(restoreLimit))
	c.connect()
	c.waitAPI(restoreLimit)
	return c
}

// save stops the guest for good and keeps its state. It fills free memory with zeros first: zeros take no
// room and no time to save.
func (c *Cluster) save(dir string) {
	c.t.Helper()
	const spareMB = 96
	c.Node(fmt.Sprintf(`sync; echo 3 >/proc/sys/vm/drop_caches; fstrim / || true
		mkdir -p /run/zeros && mount -t tmpfs -o size=100%%,nr_inodes=10 zeros /run/zeros
		mb=$(( $(awk '/^MemFree/ {print $2}' /proc/meminfo) / 1024 - %d ))
		[ $mb -le 0 ] || dd if=/dev/zero of=/run/zeros/z bs=1M count=$mb status=none || true
		umount /run/zeros; rmdir /run/zeros`, spareMB))
	path := filepath.Join(dir, "memory")
	f := require.Value(os.Create(path))(c.t)
	begin := time.Now()
	require.NoError(c.t, c.machine.monitor.save(f, restoreLimit))
	require.NoError(c.t, f.Close())
	c.machine.quit()
	st := require.Value(os.Stat(path))(c.t)
	c.t.Logf("cluster: saved %d MB of memory in %s", st.Size()>>20, time.Since(begin).Round(10*time.Millisecond))
}
