package lab

import (
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/driver-container/driver-container/ci/testkit/assert"
)

func TestLoadOrder(t *testing.T) {
	t.Parallel()
	const dep = `kernel/virtio/virtio.ko:
kernel/virtio/virtio_ring.ko: kernel/virtio/virtio.ko
kernel/virtio/virtio_pci.ko: kernel/virtio/virtio_ring.ko kernel/virtio/virtio.ko
kernel/fs/over-lay.ko:
kernel/fs/ext4.ko: kernel/lib/crc16.ko
kernel/lib/crc16.ko:
`
	got := loadOrder(dep, []string{"virtio_pci", "built_in", "over_lay", "ext4", "virtio_ring"})
	want := []string{
		"kernel/virtio/virtio.ko", "kernel/virtio/virtio_ring.ko", "kernel/virtio/virtio_pci.ko", "kernel/fs/over-lay.ko",
		"kernel/lib/crc16.ko", "kernel/fs/ext4.ko",
	}
	assert.Same(t, want, got)
}

func TestParseMounts(t *testing.T) {
	t.Parallel()
	const text = `25 1 0:22 / / rw,relatime shared:1 - tmpfs tmpfs rw,mode=755
49 37 0:40 /a\040b /run/nvidia\134x ro,relatime master:3 propagate_from:2 - overlay over\040lay rw
50 37 0:41 / /x rw - proc proc
`
	got, err := parseMounts(text)
	want := []MountPoint{
		{ID: 25, Parent: 1, Point: "/", Root: "/", Type: "tmpfs", Source: "tmpfs", Shared: true, Options: "rw,relatime", SuperOptions: "rw,mode=755", FileSystemDev: "0:22"},
		{ID: 49, Parent: 37, Point: `/run/nvidia\x`, Root: "/a b", Type: "overlay", Source: `over\040lay`, Options: "ro,relatime", SuperOptions: "rw", FileSystemDev: "0:40"},
		{ID: 50, Parent: 37, Point: "/x", Root: "/", Type: "proc", Source: "proc", Options: "rw", FileSystemDev: "0:41"},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	for _, bad := range []string{"x\n", "a b c d e f - g h\n", "1 2 3 / / rw tmpfs tmpfs\n"} {
		assert.Errorf(t, assert.Err(parseMounts(bad)), "%q was accepted", bad)
	}
}

func TestFindBugs(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		log   string
		allow string
		want  int
	}{
		"clean":          {"[    1.0] nvidia: loading out-of-tree module taints kernel.\n[    2.0] NVRM: GPU has fallen off the bus", "", 0},
		"warning":        {"a\n[    1.0] WARNING: CPU: 0 PID: 1 at mm/x.c:3\nrest", "", 2},
		"allowed":        {"a\n[    1.0] WARNING: CPU: 0 PID: 1 at mm/x.c:3\nrest", "mm/x.c", 0},
		"another is not": {"[    1.0] WARNING: at mm/x.c:3\nBUG: unable to handle page fault", "mm/x.c", 1},
		"oops":           {"[    1.0] Oops: 0002 [#1] SMP", "", 1},
		"protection":     {"[    1.0] traps: x general protection fault", "", 1},
		"hung":           {"[    1.0] INFO: task modprobe:7 blocked for more than 120 seconds.", "", 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var allow []*regexp.Regexp
			if test.allow != "" {
				allow = append(allow, regexp.MustCompile(test.allow))
			}
			if got := findBugs(test.log, allow); len(got) != test.want {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestLastOfEach(t *testing.T) {
	got := lastOfEach([]string{"A=1", "B=2", "AB=3", "A=4=5", "B="})
	if want := []string{"AB=3", "A=4=5", "B="}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
