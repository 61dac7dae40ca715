package kbuild

import (
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

func TestJobs(t *testing.T) {
	t.Parallel()
	const plenty = "MemTotal: 99\nMemAvailable:   67108864 kB\n"
	tests := []struct {
		name    string
		files   map[string]string // below the folder that replaces both /proc and /sys/fs/cgroup
		max     int
		want    int
		wantWhy string
	}{
		{"nothing known", nil, 0, 16, "16 processors"},
		{"asked for", nil, 3, 3, "requested limit of 3"},
		{"version 2, own namespace", map[string]string{"self/cgroup": "0::/\n", "cpu.max": "250000 100000\n", "memory.max": "max\n"}, 0, 3, "limit of 2.5 processors"},
		{"version 2, a limit above ours", map[string]string{
			"self/cgroup": "0::/kubepods.slice/pod1/c1\n", "kubepods.slice/pod1/c1/cpu.max": "max 100000\n", "kubepods.slice/pod1/cpu.max": "50000 100000\n",
		}, 0, 1, "limit of 0.5 processors"},
		{"version 2, memory", map[string]string{"self/cgroup": "0::/\n", "memory.max": "2147483648\n", "meminfo": plenty}, 0, 4, "memory limit of 2048 MiB"},
		{"version 2, little memory", map[string]string{"self/cgroup": "0::/\n", "memory.max": "268435456\n"}, 0, 1, "memory limit of 256 MiB"},
		{"version 1, path of the host", map[string]string{
			"self/cgroup":                      "9:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/docker/abc\n",
			"memory/memory.limit_in_bytes":     "1610612736\n",
			"cpu,cpuacct/cpu.cfs_quota_us":     "800000\n",
			"cpu,cpuacct/cpu.cfs_period_us":    "100000\n",
			"memory/docker/memory.high":        "garbage",
			"systemd/memory.limit_in_bytes":    "1",
			"cpu,cpuacct/docker/cpu.cfs_quota": "1",
		}, 0, 2, "memory limit of 1536 MiB"},
		{"version 1, no limit", map[string]string{
			"self/cgroup": "9:memory:/\n4:cpu:/\n", "memory/memory.limit_in_bytes": "9223372036854771712\n", "cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n",
		}, 0, 16, "16 processors"},
		{"little available", map[string]string{"meminfo": "MemAvailable: 1572864 kB\n"}, 0, 2, "1536 MiB of memory available"},
		{"a path that climbs out", map[string]string{"self/cgroup": "0::/../../..\n"}, 0, 16, "16 processors"},
	}
	for _, tt := range tests {
		dir := testfile.Tree(t, t.TempDir(), tt.files)
		n, why := Jobs(tt.max, Limits{Proc: dir, Cgroup: dir, CPUs: 16})
		if n != tt.want || !strings.Contains(why, tt.wantWhy) {
			t.Errorf("%s: %d, %q; want %d, %q", tt.name, n, why, tt.want, tt.wantWhy)
		}
	}
}

func TestOOMKills(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]map[string]string{
		"version 2": {"self/cgroup": "0::/a\n", "a/memory.events": "low 0\noom 3\noom_kill 2\noom_group_kill 0\n", "memory.events": "oom_kill 9\n"},
		"version 1": {"self/cgroup": "9:memory:/docker/abc\n", "memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"},
	} {
		dir := testfile.Tree(t, t.TempDir(), files)
		assert.Equalf(t, 2, (Limits{Proc: dir, Cgroup: dir}).oomKills(), "%s", name)
	}
	assert.Equalf(t, -1, (Limits{Proc: t.TempDir()}).oomKills(), "unknown")
}
