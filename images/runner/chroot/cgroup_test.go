package chroot

import (
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

// TestFindCgroups looks for a parent in folders that imitate cgroups. All other tests use that of the machine,
// where it has one.
func TestFindCgroups(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		files     map[string]string
		own, dir  string
		processes int
	}{
		"a session": {map[string]string{"user/cgroup.subtree_control": "cpu memory pids\n", "user/s/cgroup.subtree_control": "\n",
			"user/s/memory.max": "max\n", "user/s/pids.max": "max\n"}, "/user/s", "user", maxProcesses},
		"a service": {map[string]string{"system/cgroup.subtree_control": "memory pids", "system/x/cgroup.subtree_control": "",
			"system/x/pids.max": "4915\n"}, "/system/x", "system", 4915},
		"a service with a limit of memory": {map[string]string{"system/cgroup.subtree_control": "memory pids",
			"system/x/cgroup.subtree_control": "", "system/x/memory.max": "1073741824\n"}, "/system/x", "", maxProcesses},
		"the root itself": {map[string]string{"cgroup.subtree_control": "memory pids"}, "/", ".", maxProcesses},
		"nothing given":   {map[string]string{"cgroup.subtree_control": "cpu", "a/cgroup.subtree_control": ""}, "/a", "", maxProcesses},
		"not there":       {map[string]string{"cgroup.subtree_control": "memory pids"}, "/gone", "", maxProcesses},
		"not visible":     {map[string]string{"cgroup.subtree_control": "memory pids"}, "", "", maxProcesses},
	} {
		mount := testfile.Tree(t, t.TempDir(), c.files)
		want := cgroups{processes: c.processes}
		if c.dir != "" {
			want.parent = filepath.Join(mount, c.dir)
		}
		assert.Equalf(t, want, findCgroups(mount, c.own), "%s", what)
	}
	dir := testfile.Tree(t, t.TempDir(), map[string]string{"in": "4:memory:/x\n0::/user.slice/s.scope\n", "out": "0::/../outside\n"})
	assert.Equal(t, "/user.slice/s.scope", ownCgroup(dir+"/in"))
	assert.Equalf(t, "", ownCgroup(dir+"/out"), "a cgroup outside of the namespace")
	assert.Errorf(t, removeCgroup(t.TempDir()), "a folder that is none of ours was removed")
}
