package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/cluster/control"
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
const stateRecipe = "2"

// readyState returns the guest with its node Ready and no images.
func readyState(t testing.TB, r *registry) state {
	t.Helper()
	b := makeBase(t)
	version, _, _ := strings.Cut(tool.Must(t, "qemu-system-x86_64", "--version"), "\n")
	s := state{base: b, key: require.Value(tool.CacheKey(append(hardware(), stateRecipe, version, b.key)))(t)}
	s.dir = cached(t, "ready", s.key, func(dir string) {
		require.NoError(t, os.MkdirAll(dir, 0o755))
		disk := overlay(t, filepath.Join(b.dir, "root.ext4"), "raw", dir)
		begin := time.Now()
		c := &Cluster{Client: control.Client{T: t}, base: b, machine: startMachine(t, b, disk, r.port, nil)}
		defer c.reportFailure()
		c.connect()
		c.waitNode(bootLimit)
		t.Logf("cluster: from the start of QEMU to the node being Ready: %s", time.Since(begin).Round(time.Second))
		c.save(dir)
	})
	return s
}

// pulledState returns that state with the images on the node.
func pulledState(t testing.TB, r *registry) state {
	t.Helper()
	ready := readyState(t, r)
	texts := []string{ready.key}
	list := images(t, ready.base, r)
	for _, p := range list {
		texts = append(texts, p.ref, p.digest)
	}
	s := state{base: ready.base, key: require.Value(tool.CacheKey(texts))(t)}
	s.dir = cached(t, "pulled", s.key, func(dir string) {
		require.NoError(t, os.MkdirAll(dir, 0o755))
		c := restore(t, ready, r, dir)
		defer c.reportFailure()
		for _, p := range list {
			begin := time.Now()
			require.Value(c.tryNode(pullLimit, "ctr -n k8s.io images pull --hosts-dir /etc/containerd/certs.d "+guestRegistry+"/"+p.ref))(t)
			t.Logf("cluster: pulled %s in %s", p.ref, time.Since(begin).Round(100*time.Millisecond))
		}
		c.save(dir)
	})
	return s
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
	c := &Cluster{Client: control.Client{T: t}, base: s.base}
	c.machine = startMachine(t, s.base, overlay(t, filepath.Join(s.dir, "disk.qcow2"), "qcow2", dir), r.port, memory)
	require.NoError(t, c.machine.monitor.restored(restoreLimit))
	c.connect()
	c.waitNode(restoreLimit)
	return c
}

// save stops the guest for good and keeps its state. It fills free memory with zeros first: zeros take no
// room and no time to save.
func (c *Cluster) save(dir string) {
	c.T.Helper()
	const spareMB = 96
	c.Node(fmt.Sprintf(`sync; echo 3 >/proc/sys/vm/drop_caches; fstrim / || true
		mkdir -p /run/zeros && mount -t tmpfs -o size=100%%,nr_inodes=10 zeros /run/zeros
		mb=$(( $(awk '/^MemFree/ {print $2}' /proc/meminfo) / 1024 - %d ))
		[ $mb -le 0 ] || dd if=/dev/zero of=/run/zeros/z bs=1M count=$mb status=none || true
		umount /run/zeros; rmdir /run/zeros`, spareMB))
	path := filepath.Join(dir, "memory")
	f := require.Value(os.Create(path))(c.T)
	begin := time.Now()
	require.NoError(c.T, c.machine.monitor.save(f, restoreLimit))
	require.NoError(c.T, f.Close())
	c.machine.quit()
	st := require.Value(os.Stat(path))(c.T)
	c.T.Logf("cluster: saved %d MB of memory in %s", st.Size()>>20, time.Since(begin).Round(10*time.Millisecond))
}
