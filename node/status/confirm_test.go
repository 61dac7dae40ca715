package status

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/lock"
)

const confirmedDir = "/var/lib/nvidia-driver/roots/535.261.03-0123456789ab"

// seen is what a container sees of a node: files of sysfs below sys, and the mounts.
type seen struct {
	sys    map[string]string
	mounts string // RUN stands for the folder of the status
	holder int    // process id of the lock's holder; 0: nobody has the lock
	gone   bool   // somebody removed the lock file
}

// serves is a node on which the driver of the status serves.
func serves() seen {
	return seen{holder: 7, sys: map[string]string{
		"module/nvidia/initstate": "live\n", "module/nvidia/srcversion": "AAAA\n", "module/nvidia_uvm/initstate": "live\n", "module/nvidia_uvm/srcversion": "BBBB\n"},
		mounts: "20 1 0:5 / / rw - overlay overlay rw\n30 20 0:24 /nvidia RUN ro master:3 - tmpfs tmpfs rw\n31 30 8:1 " + confirmedDir + " RUN/driver ro master:4 - ext4 /dev/vda rw\n"}
}

func (s seen) system(t *testing.T, run string) kmod.System {
	t.Helper()
	dir := t.TempDir()
	testfile.Tree(t, dir, map[string]string{"proc/self/mountinfo": strings.ReplaceAll(s.mounts, "RUN", run), "proc/modules": ""})
	testfile.Tree(t, dir+"/sys", s.sys)
	return kmod.System{Sys: dir + "/sys", Proc: dir + "/proc"}
}

func TestConfirm(t *testing.T) {
	t.Parallel()
	const noMount = "20 1 0:5 / / rw - overlay overlay rw\n30 20 0:24 /nvidia RUN ro master:3 - tmpfs tmpfs rw\n"
	for name, c := range map[string]struct {
		edit func(s *seen, st *Snapshot)
		want string // part of the reason; "": the driver serves
	}{
		"serves":                    {func(*seen, *Snapshot) {}, ""},
		"not ready":                 {func(_ *seen, st *Snapshot) { st.State, st.Ready, st.Reason = Degraded, false, "no GPU works" }, "degraded: no GPU works"},
		"killed":                    {func(s *seen, _ *Snapshot) { s.holder = 0 }, "no driver container holds the node's lock: the one that wrote this was killed after 2026-11-22T08:00:00Z"},
		"killed, a successor began": {func(s *seen, _ *Snapshot) { s.holder = 8 }, "of an instance that has ended; the node's lock is held by pid 8"},
		"the lock file was removed": {func(s *seen, _ *Snapshot) { s.gone = true }, ""},
		"a module was unloaded": {func(s *seen, _ *Snapshot) {
			delete(s.sys, "module/nvidia_uvm/initstate")
			delete(s.sys, "module/nvidia_uvm/srcversion")
		}, "module nvidia_uvm was unloaded"},
		"a module is being unloaded": {func(s *seen, _ *Snapshot) { s.sys["module/nvidia/initstate"] = "going\n" }, `module nvidia in state "going"`},
		"a companion was unloaded": {func(_ *seen, st *Snapshot) {
			st.Up.Modules = append(st.Up.Modules, Module{Name: "nvidia_fs", SrcVersion: "DDDD"}, Module{Name: "gdrdrv", SrcVersion: "EEEE"})
		}, ""},
		"another build":               {func(s *seen, _ *Snapshot) { s.sys["module/nvidia/srcversion"] = "CCCC\n" }, "module nvidia was replaced"},
		"a container without sysfs":   {func(s *seen, _ *Snapshot) { s.sys = nil }, ""},
		"unmounted":                   {func(s *seen, _ *Snapshot) { s.mounts = noMount }, "driver was unmounted"},
		"a view that does not follow": {func(s *seen, _ *Snapshot) { s.mounts = strings.ReplaceAll(noMount, "master:3 ", "") }, ""},
		"mounted over":                {func(s *seen, _ *Snapshot) { s.mounts += "32 31 0:9 / RUN/driver rw master:5 - tmpfs tmpfs rw\n" }, "mounted over the driver root"},
		"its folder was removed": {func(s *seen, _ *Snapshot) {
			s.mounts = strings.ReplaceAll(s.mounts, confirmedDir, confirmedDir+"//deleted")
		}, "was removed"},
		"the container's root": {func(s *seen, st *Snapshot) { s.mounts, st.Up.RootDir = noMount, "" }, ""},
		"no procfs":            {func(s *seen, _ *Snapshot) { s.mounts = "" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := t.TempDir()
			s := serves()
			st := Snapshot{Schema: Schema, State: Serving, Ready: true, PID: 7, Updated: time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC), Up: &Driver{Version: "535.261.03", RootDir: confirmedDir,
				Modules: []Module{{Name: "nvidia", SrcVersion: "AAAA"}, {Name: "nvidia_uvm", SrcVersion: "BBBB"}}}}
			c.edit(&s, &st)
			if s.holder != 0 {
				defer unlock(t, acquire(t, run, s.holder))
			}
			if s.gone {
				require.NoError(t, os.Remove(lock.Path(run)))
			}
			err := st.Confirm(run, s.system(t, run))
			if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, ErrNotReady) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
