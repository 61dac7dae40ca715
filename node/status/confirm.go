package status

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/lock"
	"github.com/driver-container/driver-container/node/mounttable"
)

// Confirm returns nil if the driver serves: the status says so, and lock, modules and driver root
// do not contradict it. The status alone is not enough, because an instance that was killed cannot
// correct it. Otherwise it returns ErrNotReady with the reason. Confirm needs the folder run,
// read-only, and sysfs and procfs as every container has them; it does not hold against the driver
// what its container cannot see.
func (st Snapshot) Confirm(run string, s kmod.System) error {
	if err := st.confirmLock(run); err != nil {
		return err
	}
	if err := st.notReady(); err != nil {
		return err
	}
	if st.Up == nil {
		return nil
	}
	if err := st.confirmModules(s); err != nil {
		return err
	}
	return st.confirmRoot(run, s)
}

// Corrected returns the status as far as it is still true: an instance that was killed cannot
// correct it.
func (st Snapshot) Corrected(run string, s kmod.System) Snapshot {
	err := st.confirmLock(run)
	if err == nil && st.Ready {
		err = st.Confirm(run, s)
	}
	if err != nil && (st.Ready || st.Reason == "") {
		st.Ready = false
		st.Reason = short(err)
	}
	return st
}

// short is the reason of an ErrNotReady.
func short(err error) string { return strings.TrimPrefix(err.Error(), ErrNotReady.Error()+": ") }

// ended reports whether an instance leaves this state behind when it ends in order.
func (s State) ended() bool {
	return slices.Contains([]State{"", Detached, Restored, Absent, Failed}, s)
}

// confirmLock: the instance that wrote the status holds the node's lock, or it has ended in order.
func (st Snapshot) confirmLock(run string) error {
	holder, held, err := lock.Held(run)
	switch {
	case err != nil || !held && st.State.ended():
		return nil //nolint:nilerr // this process may not look at the lock
	case !held:
		return fmt.Errorf(
			"%w: its status says %s, but no driver container holds the node's lock: the one that wrote this was killed after %s; the next one takes over",
			ErrNotReady,
			st.State,
			st.Updated.UTC().Format(time.RFC3339),
		)
	case holder.PID != 0 && holder.PID != st.PID:
		return fmt.Errorf(
			"%w: the status is of an instance that has ended; the node's lock is held by %s",
			ErrNotReady,
			holder,
		)
	}
	return nil
}

// confirmModules: the driver's own modules are loaded, from the same build.
func (st Snapshot) confirmModules(s kmod.System) error {
	for _, m := range st.Up.Modules {
		if err := m.confirm(s); err != nil && !m.Companion() {
			return err
		}
	}
	return nil
}

func (m Module) confirm(s kmod.System) error {
	if _, err := os.Stat(filepath.Join(cmp.Or(s.Sys, "/sys"), "module")); err != nil {
		return nil //nolint:nilerr // no sysfs in this container
	}
	live, err := s.Module(m.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: module %s was unloaded", ErrNotReady, m.Name)
	case err != nil: // it cannot be seen
		return nil //nolint:nilerr // see above
	case live.State != "live":
		return fmt.Errorf("%w: the kernel has module %s in state %q", ErrNotReady, m.Name, live.State)
	case live.SrcVersion != m.SrcVersion:
		return fmt.Errorf("%w: module %s was replaced by another build", ErrNotReady, m.Name)
	}
	return nil
}

// confirmRoot: the driver root is served from the folder that the status names. The root of a
// container, which has no folder, ends with the container: the lock says that.
func (st Snapshot) confirmRoot(run string, s kmod.System) error {
	root := RootPath(run)
	if st.Up.RootDir == "" {
		return nil
	}
	at, err := mounttable.RealPath(root)
	if err != nil {
		return nil //nolint:nilerr // this process may not look
	}
	mounts, err := mounttable.ReadFile(
		filepath.Join(cmp.Or(s.Proc, "/proc"), "self/mountinfo"),
		func(point string) bool { return mounttable.AtOrBelow(at, point) },
	)
	if err != nil || len(mounts) == 0 {
		return nil //nolint:nilerr // no procfs in this container
	}
	var around mounttable.Mount // contains the mount point of the root
	layers := 0
	deleted := false
	for _, m := range mounts {
		switch {
		case m.Point == at:
			layers++
			deleted = m.Deleted()
		case len(m.Point) >= len(around.Point):
			around = m
		}
	}
	switch {
	case !around.Shared && !around.Slave: // this container keeps the mounts that it began with
		return nil
	case layers == 0:
		return fmt.Errorf("%w: the driver root %s was unmounted", ErrNotReady, root)
	case layers > 1:
		return fmt.Errorf("%w: something was mounted over the driver root %s", ErrNotReady, root)
	case deleted:
		return fmt.Errorf("%w: the folder of the driver root %s was removed", ErrNotReady, root)
	}
	return nil
}
