package driverroot

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/conformance/inside"
	"github.com/driver-container/driver-container/ci/gate"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/ci/testfile"
	"github.com/driver-container/driver-container/node/logging"
)

// unprivileged runs this test program as a child that stages and links the root below dir with only these
// capabilities, and returns its log.
func unprivileged(t *testing.T, dir string, keep ...uintptr) string {
	t.Helper()
	var out []byte
	onOwnThread(func() { // the capabilities are dropped for ever, so the thread ends
		kept := map[uintptr]bool{}
		for _, c := range keep {
			kept[c] = true
		}
		for c := range uintptr(unix.CAP_LAST_CAP + 1) {
			if !kept[c] {
				must(unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0))
			}
		}
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), linkChild+"="+dir)
		out, _ = cmd.CombinedOutput()
	})
	t.Log(strings.TrimSpace(string(out)))
	return string(out)
}

// linkMain is the main function of that child.
func linkMain(dir string) error {
	r := Root{Image: dir + "/merged", Storage: dir + "/storage", ID: testID, Version: testVersion, HostDev: true, NoMounts: true,
		Target: dir + "/run/driver", init: "/proc/" + strconv.Itoa(os.Getppid()), Log: logging.New(os.Stdout, "text")}
	s, err := r.Stage(context.Background())
	if err != nil {
		return err
	}
	return s.Link(context.Background())
}

// A root is staged and linked with few capabilities. With those that are needed to find the image's layers,
// it shares data with them.
func TestUnprivileged(t *testing.T) {
	gate.Root(t, "it mounts")
	for name, c := range map[string]struct {
		keep  []uintptr
		share bool
	}{
		"that see the host": {[]uintptr{unix.CAP_MKNOD, unix.CAP_SYS_PTRACE}, true},
		"that do not":       {[]uintptr{unix.CAP_MKNOD}, false},
	} {
		t.Run(name, func(t *testing.T) {
			gate.Root(t, "it mounts")
			dir := t.TempDir()
			r, base, _ := layered(t, dir)
			require.NoError(t, os.Lchown(filepath.Join(base, "etc/big"), 0, 42))
			require.NoError(t, os.Chmod(filepath.Join(base, "etc/big"), 0o2755|os.ModeSetgid))
			require.NoError(t, unix.Chmod(filepath.Join(base, "etc/big"), 0o2755))
			require.NoError(t, os.Symlink("big", filepath.Join(base, "etc/other")))
			require.NoError(t, os.Lchown(filepath.Join(base, "etc/other"), 1000, 1000))
			// Mounts of the runtime and the pod.
			for _, dir := range []string{"usr/lib/modules", "proc"} {
				require.NoError(t, os.MkdirAll(filepath.Join(base, dir), 0o755))
				require.NoError(t, unix.Mount("pod", filepath.Join(r.Image, dir), "tmpfs", 0, ""))
			}
			testfile.Write(t, r.Image+"/usr/lib/modules/6.1.0/nvidia.ko", "the host's")
			hosts := filepath.Join(t.TempDir(), "hosts")
			require.NoError(t, os.WriteFile(hosts, []byte("the pod's"), 0o644))
			require.NoError(t, unix.Mount(hosts, filepath.Join(r.Image, "etc/hosts"), "", unix.MS_BIND, ""))
			t.Cleanup(func() {
				for _, dir := range []string{"usr/lib/modules", "proc", "etc/hosts"} {
					_ = unix.Unmount(filepath.Join(r.Image, dir), unix.MNT_DETACH)
				}
			})

			out := unprivileged(t, dir, c.keep...)
			if !strings.HasSuffix(out, "end: <nil>\n") {
				t.Fatal(out)
			}
			target := filepath.Join(dir, "run/driver")
			if found := inside.Lint(target, testVersion, true); len(found) > 0 {
				t.Errorf("findings: %q", found)
			}
			for name, there := range map[string]bool{"etc/hosts": false, "usr/lib/modules": true, "usr/lib/modules/6.1.0": false, "usr/bin/ping": true, testLib + "open": true, "etc/other": true} {
				if _, err := os.Lstat(filepath.Join(target, name)); (err == nil) != there {
					t.Errorf("%s: %v", name, err)
				}
			}
			if is := isSameFile(filepath.Join(base, testLib, "open"), filepath.Join(target, testLib, "open")); is != c.share {
				t.Errorf("shared with the layer: %v", is)
			}
			var st unix.Stat_t
			require.NoError(t, unix.Stat(filepath.Join(target, "etc/big"), &st))
			if st.Gid != 0 || st.Mode&0o7777 != 0o755 {
				t.Errorf("a file that may not be given away is of group %d, mode %o", st.Gid, st.Mode&0o7777)
			}
		})
	}
}
