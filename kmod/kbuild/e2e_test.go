package kbuild

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The real tier: DRIVER_E2E=1, root, and DRIVER_E2E_ROOT naming an unpacked driver image that has the headers of
// DRIVER_E2E_RELEASE. Build the tests with CGO_ENABLED=0: they go on inside the image. DRIVER_E2E_SOURCE and
// DRIVER_E2E_DRIVER name other sources than those of 535.261.03.
func e2eRoot(t *testing.T) string {
	t.Helper()
	root := os.Getenv("DRIVER_E2E_ROOT")
	if os.Getenv("DRIVER_E2E") != "1" || root == "" || os.Getenv("DRIVER_E2E_RELEASE") == "" {
		t.Skip("needs DRIVER_E2E=1, DRIVER_E2E_ROOT (an unpacked driver image with kernel headers) and DRIVER_E2E_RELEASE")
	}
	if os.Getuid() != 0 {
		t.Skip("needs root, for chroot and mounts")
	}
	return root
}

// order is what the process in the image is to do.
type order struct {
	Root, Release, Source, Driver string
	Host                          string // folder in the image at which the root shows once more, as a host's does
	Work                          string
	Stop                          time.Duration // cancel after this time; 0: never
	Jobs                          int
	Squeeze                       string // file of a memory limit that becomes tight with the first object
	Modules                       []string
}

// report is its answer.
type report struct {
	Err                    string
	Killed, NoSpace, Ended bool
	Digests                map[string]string
	Key, Cached            string
	Took, StopTook         time.Duration
	Steps, Total           int
	Mismatch               bool
	Origin                 string
}

func defaultOrder(root string) order {
	o := order{
		Root: root, Release: os.Getenv("DRIVER_E2E_RELEASE"), Source: os.Getenv("DRIVER_E2E_SOURCE"), Driver: os.Getenv("DRIVER_E2E_DRIVER"),
		Work: "/var/compile-a", Modules: []string{"nvidia", "nvidia-uvm", "nvidia-modeset", "nvidia-drm"},
	}
	if o.Source == "" {
		o.Source, o.Driver = "/usr/src/nvidia-535.261.03/kernel", "535.261.03"
	}
	return o
}

// inImage runs this test binary once more, in a mount namespace of its own, to carry out the order there.
func inImage(t *testing.T, o order, cgroup string) report {
	t.Helper()
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-test.run=^TestInImage$", "-test.v", "-test.timeout=20m"}
	cmd := exec.Command("/proc/self/exe", args...)
	if cgroup != "" {
		cmd = exec.Command("/bin/sh", append([]string{"-c", `echo $$ > "$0"/cgroup.procs && exec "$@"`, cgroup, os.Args[0]}, args...)...)
	}
	cmd.Env = append(os.Environ(), "BUILD_TEST_ORDER="+string(raw))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	for line := range bytes.Lines(out) {
		if text, ok := bytes.CutPrefix(line, []byte("REPORT ")); ok {
			var r report
			if err := json.Unmarshal(text, &r); err != nil {
				t.Fatal(err)
			}
			t.Logf("%+v", r)
			return r
		}
	}
	t.Fatalf("no report: %v\n%s", err, out)
	return report{}
}

// leftovers are processes whose working folder or command line is in the order's scratch folder.
func leftovers(t *testing.T, o order) []string {
	t.Helper()
	var left []string
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		cwd, _ := os.Readlink(filepath.Join(dir, "cwd"))
		if strings.Contains(string(line), o.Work+"/"+scratch) || strings.Contains(cwd, o.Work+"/"+scratch) {
			left = append(left, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return left
}

func TestE2E(t *testing.T) {
	root := e2eRoot(t)
	t.Run("stop in mid-compile", func(t *testing.T) {
		for _, after := range []time.Duration{50 * time.Millisecond, 2 * time.Second, 15 * time.Second} {
			o := defaultOrder(root)
			o.Stop = after
			r := inImage(t, o, "")
			if !r.Ended || r.StopTook > 2*time.Second {
				t.Errorf("stop after %v: took %v, error %s", after, r.StopTook, r.Err)
			}
			if left := leftovers(t, o); len(left) > 0 {
				t.Errorf("stop after %v left %q", after, left)
			}
		}
	})
	t.Run("out of memory", func(t *testing.T) {
		o := defaultOrder(root)
		o.Jobs = 2
		group, limit := memoryGroup(t)
		o.Squeeze = limit
		r := inImage(t, o, group)
		if !r.Killed {
			t.Errorf("the error does not tell of the killed compiler: %+v", r)
		}
		if left := leftovers(t, o); len(left) > 0 {
			t.Errorf("left %q", left)
		}
	})
	t.Run("equal modules", func(t *testing.T) {
		first := inImage(t, defaultOrder(root), "")
		other := defaultOrder(root)
		other.Work, other.Host, other.Jobs = "/var/another/place", "/mnt/host", 1+first.Total%2
		second := inImage(t, other, "")
		if len(first.Digests) != 4 || second.Origin != "host" {
			t.Errorf("first %+v, second %+v", first, second)
		}
		for name, sum := range first.Digests {
			if second.Digests[name] != sum {
				t.Errorf("%s: %s and %s", name, sum, second.Digests[name])
			}
		}
		if first.Key != second.Key {
			t.Errorf("keys differ: %s and %s", first.Key, second.Key)
		}
	})
}

// memoryGroup makes a cgroup of version 1 or 2, and returns its folder and the file with its memory limit.
func memoryGroup(t *testing.T) (dir, limit string) {
	t.Helper()
	for _, g := range []struct{ base, file string }{{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, {"/sys/fs/cgroup", "memory.max"}} {
		dir := filepath.Join(g.base, "driver-build-test-"+strconv.Itoa(os.Getpid()))
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { os.Remove(dir) })
		if limit := filepath.Join(dir, g.file); isFile(limit) {
			return dir, limit
		}
	}
	t.Skip("no memory cgroup can be made here")
	return "", ""
}
