package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// TestMain runs a child's part if it is called as runChild calls this program. Root's tests get a mount namespace of
// their own: their mounts are not visible outside.
func TestMain(m *testing.M) {
	const own = "HOST_TEST_NAMESPACE"
	if len(os.Args) < 2 || !strings.HasPrefix(os.Args[1], "__") {
		if os.Getuid() == 0 && os.Getenv(own) == "" {
			os.Exit(tool.InNamespace(unix.CLONE_NEWNS, "mount", own+"=1"))
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil && os.Getuid() == 0 {
			panic(err)
		}
		os.Exit(m.Run())
	}
	fmt.Printf("child %v\n", os.Args[2:])
	switch os.Args[1] {
	case DeleteVerb:
		switch os.Args[2] {
		case "busy":
			os.Exit(DeleteInUse)
		case "absent":
			os.Exit(DeleteAbsent)
		case "broken":
			os.Exit(1)
		case "shot":
			_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
			time.Sleep(time.Minute)
		case "once":
			shot := filepath.Join("/tmp", fmt.Sprintf("shot-%d", os.Getppid()))
			if os.Remove(shot) == nil {
				os.Exit(DeleteAbsent)
			} else if err := os.WriteFile(shot, nil, 0o600); err != nil {
				os.Exit(1)
			}
			_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
			time.Sleep(time.Minute)
		}
	}
}

func TestMountedIsAMountPoint(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{"/proc": true, "/proc/self": false, "/nonexistent": false, t.TempDir(): false} {
		assert.Equalf(t, want, require.Value(mounted(path))(t), "%s", path)
	}
	if release, err := kernelRelease(); err != nil || release == "" {
		t.Errorf("%q, %v", release, err)
	}
}
