package devices

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/moby/sys/mountinfo"
)

// HostDev says whether the /dev that we see is the host's: the kernel has one devtmpfs, so a /dev of that type is it, while a
// container's own is a tmpfs. proc is a mounted procfs, "/proc".
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
	// The kernel lists a mount after the one that it covers: the last is the one to see.
	return len(mounts) > 0 && mounts[len(mounts)-1].FSType == "devtmpfs", nil
}
