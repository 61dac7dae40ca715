package preflight

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/require"
)

// variant has the capabilities of the documented variant: SYS_MODULE, MKNOD, SYS_PTRACE, DAC_READ_SEARCH.
const variant = "CapEff:\t0000000008090004\n"

func TestUnprivileged(t *testing.T) {
	t.Parallel()
	const parameter = "sys/module/firmware_class/parameters/path"
	linked := func(i *Input) { i.Linked = true }
	for _, c := range []struct {
		name, check string
		files       map[string]string
		input       func(*Input)
		status      Status
		find, fix   string
	}{
		{"the variant", Privileges, map[string]string{parameter: ""}, nil, OK, "linked driver root", ""},
		{"no such parameter", Privileges, nil, nil, OK, "linked driver root", ""},
		{"no CAP_SYS_MODULE", Privileges, map[string]string{"proc/self/status": "CapEff:\t0000000008080004\n"}, nil, Blocked, "lacks CAP_SYS_MODULE", "capabilities.add"},
		{"no CAP_MKNOD", Privileges, map[string]string{"proc/self/status": "CapEff:\t0000000000090004\n"}, nil, Blocked, "lacks CAP_MKNOD", "capabilities.add"},
		{"no CAP_SYS_PTRACE", Privileges, map[string]string{"proc/self/status": "CapEff:\t0000000008010004\n"}, nil, Warning, "lacks CAP_SYS_PTRACE", "capabilities.add"},
		{"no CAP_DAC_READ_SEARCH", Privileges, map[string]string{"proc/self/status": "CapEff:\t0000000008090000\n"}, nil, Warning, "lacks CAP_DAC_READ_SEARCH", "capabilities.add"},
		// EISDIR stands for EROFS.
		{"parameter not writable", Privileges, map[string]string{parameter + "/": ""}, nil, Blocked, "cannot be told where the firmware is", "hostPath"},
		{"a bind of the run folder", RunShared, nil, func(i *Input) { i.Host = "/nowhere" }, OK, "is a link in /run/nvidia", ""},
		{"a root is mounted", RunShared, map[string]string{"proc/self/mountinfo": goodMounts + "599 598 8:1 /x /run/nvidia/driver rw - ext4 /dev/sda rw\n"}, nil,
			Blocked, "a driver root is mounted at /run/nvidia/driver", "umount -R"},
		{"read-only", RunShared, map[string]string{"proc/self/mountinfo": strings.Replace(goodMounts, "/run/nvidia rw", "/run/nvidia ro", 1)}, nil, Blocked, "read-only", "writable"},
		{"no run folder", RunShared, nil, func(i *Input) { i.RunDir = "/run/nowhere" }, Blocked, "no such file", "hostPath"},
		{"host out of sight", HostPID, nil, func(i *Input) { i.Host = i.Root }, Warning, "out of sight", "hostPID"},
	} {
		t.Run(c.check+"/"+c.name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{"proc/self/status": variant}
			maps.Copy(files, c.files)
			m := newMachine(t, files)
			in := m.input()
			linked(&in)
			if c.input != nil {
				c.input(&in)
			}
			got := find(t, Run(t.Context(), in), c.check)
			if got.Status != c.status || !strings.Contains(got.Finding, c.find) || !strings.Contains(got.Fix, c.fix) {
				t.Errorf("%s: %s (%s)\nwant %s: %s (%s)", got.Status, got.Finding, got.Fix, c.status, c.find, c.fix)
			}
		})
	}
}

// The host's root shows whose folder it is.
func TestRunLinkedIsTheHosts(t *testing.T) {
	t.Parallel()
	m := newMachine(t, map[string]string{"proc/self/status": variant, "shared/": ""})
	in := m.input()
	in.Linked, in.RunDir = true, m.dir+"/shared"
	if got := find(t, Run(t.Context(), in), RunShared); got.Status != Blocked || !strings.Contains(got.Finding, "is not the host's") {
		t.Errorf("%+v", got)
	}
	there := filepath.Join(in.Host, in.RunDir)
	require.NoError(t, os.MkdirAll(filepath.Dir(there), 0o755))
	require.NoError(t, os.Symlink(in.RunDir, there))
	if got := find(t, Run(t.Context(), in), RunShared); got.Status != OK {
		t.Errorf("%+v", got)
	}
}
