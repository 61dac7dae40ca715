package status

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/daemons"
	"github.com/driver-container/driver-container/node/lock"
)

// ErrNotReady says that the driver does not serve (yet), and why.
var ErrNotReady = errors.New("the driver is not ready")

// InstanceFile is the file into which an instance writes its name, inside of its own container.
// With the name, its probes know whether the node's status is about this instance or about another
// one that still holds the node. The file's modification time is the heartbeat of the instance.
const InstanceFile = "/run/driver-entrypoint.instance"

// Mine returns ErrNotReady unless the instance of this container serves the driver, see
// Snapshot.Confirm. It is the startup and readiness probe.
func Mine(run, instanceFile string, s kmod.System) error {
	mine, err := os.ReadFile(instanceFile)
	if err != nil {
		return fmt.Errorf("%w: no driver-entrypoint runs in this container: %w", ErrNotReady, err)
	}
	st, err := Read(run)
	if err == nil && st.Instance == strings.TrimSpace(string(mine)) {
		return st.Confirm(run, s)
	}
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return fmt.Errorf("%w: %w", ErrNotReady, err)
	}
	holder, held, err := lock.Held(run)
	switch {
	case err != nil || !held:
		return fmt.Errorf("%w: this container's instance has not begun", ErrNotReady)
	case missing:
		return fmt.Errorf("%w: %s", ErrNotReady, Missing(run))
	}
	return fmt.Errorf("%w: waiting for the node's lock, held by %s", ErrNotReady, holder)
}

// Missing says why a node has no status. The lock's file is never removed, so it shows that an
// instance ran.
func Missing(run string) string {
	if holder, held, err := lock.Held(run); held && err == nil {
		return "the driver container that holds the node's lock has written no status yet: " + holder.String()
	}
	if _, err := os.Lstat(lock.Path(run)); err == nil {
		return "the driver container of this node was stopped, and took its driver down"
	}
	return "no driver container has run on this node since it booted"
}

// notReady returns nil if the status says that the driver serves, otherwise ErrNotReady with the
// reason.
func (st Snapshot) notReady() error {
	switch {
	case st.Ready:
		return nil
	case st.Reason != "":
		return fmt.Errorf("%w: %s: %s", ErrNotReady, st.State, st.Reason)
	case st.Phase != "":
		return fmt.Errorf("%w: %s, phase %s", ErrNotReady, st.State, st.Phase)
	}
	return fmt.Errorf("%w: %s", ErrNotReady, st.State)
}

// Alive returns an error unless the instance of this container has updated its heartbeat in the
// last minute. It does not look at the driver: a restart does not help a container that waits or
// compiles.
func Alive(instanceFile string, now time.Time) error {
	const silence = time.Minute
	info, err := os.Stat(instanceFile)
	if err != nil {
		return fmt.Errorf("no driver-entrypoint runs in this container: %w", err)
	}
	if quiet := now.Sub(info.ModTime()); quiet > silence {
		return fmt.Errorf(
			"driver-entrypoint has given no sign of life for %s",
			quiet.Round(time.Second),
		)
	}
	return nil
}

// WaitReady returns nil when an instance on this node serves the driver, see Snapshot.Confirm: for
// containers that need it. It logs what it waits for, when that changes.
func WaitReady(ctx context.Context, run string, s kmod.System, log *slog.Logger) error {
	last := ""
	err := daemons.Until(ctx, time.Second, func() error {
		st, err := Read(run)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			err = fmt.Errorf("%w: %s", ErrNotReady, Missing(run))
		case err != nil:
			err = fmt.Errorf("%w: %w", ErrNotReady, err)
		default:
			err = st.Confirm(run, s)
		}
		if err != nil && err.Error() != last {
			last = err.Error()
			log.Info("waiting", "reason", err)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("gave up waiting: %w, as logged before", ErrNotReady)
	}
	return nil
}

// PeermemMissing returns ErrNotReady if Mellanox's module is loaded and nvidia-peermem is not.
func PeermemMissing(s kmod.System) error {
	if _, err := s.Module("mlx5_core"); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, err := s.Module("nvidia_peermem"); err != nil {
		return fmt.Errorf("%w: mlx5_core is loaded, nvidia-peermem is not: %w", ErrNotReady, err)
	}
	return nil
}
