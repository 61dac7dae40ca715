package chroot

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/ci/testfile"
)

// TestSearchCgroups looks for a parent in folders that imitate cgroups. TestMemory shows that the kernel
// accepts the values, on machines with a real one.
func TestSearchCgroups(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		files     map[string]string
		own       string
		dir, why  string
		processes int
	}{
		"a session": {map[string]string{"user/cgroup.subtree_control": "cpu memory pids\n", "user/s/cgroup.subtree_control": "\n",
			"user/s/memory.max": "max\n", "user/s/pids.max": "max\n"}, "/user/s", "user", "", maxProcesses},
		"a service": {map[string]string{"system/cgroup.subtree_control": "memory pids", "system/x/cgroup.subtree_control": "",
			"system/x/pids.max": "4915\n"}, "/system/x", "system", "", 4915},
		"a service with a limit of memory": {map[string]string{"system/cgroup.subtree_control": "memory pids",
			"system/x/cgroup.subtree_control": "", "system/x/memory.max": "1073741824\n"}, "/system/x", "", "limit of memory", 0},
		"the root itself": {map[string]string{"cgroup.subtree_control": "memory pids"}, "/", ".", "", maxProcesses},
		"nothing given":   {map[string]string{"cgroup.subtree_control": "cpu", "a/cgroup.subtree_control": ""}, "/a", "", "gives its children", 0},
		"not there":       {map[string]string{"cgroup.subtree_control": "memory pids"}, "/gone", "", "no such file", 0},
	} {
		mount := testfile.Tree(t, t.TempDir(), c.files)
		got := searchCgroups(mount, c.own)
		want := ""
		if c.dir != "" {
			want = filepath.Join(mount, c.dir)
		}
		if got.parent != want || !strings.Contains(got.why, c.why) || want != "" && got.pids != c.processes {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

func TestCgroupFiles(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "x")
	write := func(s string) string {
		require.NoError(t, os.WriteFile(file, []byte(s), 0o600))
		return file
	}
	mount, err := cgroupMount(write("31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n40 31 0:38 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw\n"))
	if err != nil || mount != "/sys/fs/cgroup/unified" {
		t.Errorf("%q, %v", mount, err)
	}
	if _, err := cgroupMount(write("40 31 0:38 /a/b /mnt rw - cgroup2 cgroup2 rw\n")); err == nil {
		t.Error("a part of the hierarchy was taken for all of it")
	}
	own, err := ownCgroup(write("4:memory:/x\n0::/user.slice/s.scope\n"))
	if err != nil || own != "/user.slice/s.scope" {
		t.Errorf("%q, %v", own, err)
	}
	assert.Errorf(t, assert.Err(ownCgroup(write("0::/../outside\n"))), "a cgroup outside of the namespace")
	assert.Errorf(t, removeCgroup(t.TempDir()), "a folder that is none of ours was removed")
}
