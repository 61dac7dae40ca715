package devices

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/moby/sys/mountinfo"
)

// HostDev says whether the visible /dev is the host's. The kernel has only one devtmpfs, so a /dev of that
// type is the host's; a container's own /dev is a tmpfs. proc is a mounted procfs, "/proc".
func HostDev(proc string) (bool, error) {
	f, err := os.Open(filepath.Join(proc, "self/mountinfo"))
	if err != nil {
		return false, fmt.Errorf("find out whose /dev this is: %w", err)
	}
	defer f.Close()
	mounts, err := mountinfo.GetMountsFromReader(f, func(m *mountinfo.Info) (skip, stop bool) { return m.Mountpoint != "/dev", false })
	if err != nil {
		return false, fmt.Errorf("find out whose /dev this is: %w", err)
	}
	// The kernel lists a mount after the one that it covers: the last one is visible.
	return len(mounts) > 0 && mounts[len(mounts)-1].FSType == "devtmpfs", nil
}
