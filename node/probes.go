package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/driver-container/driver-container/node/lock"
)

// ErrNotReady says that the driver does not serve (yet), and why.
var ErrNotReady = errors.New("the driver is not ready")

// InstanceFile is where an instance writes its name, inside of its own container: its probes know by it whether the node's status
// is about it or about another instance that still holds the node. Its modification time is the instance's heartbeat.
const InstanceFile = "/run/driver-entrypoint.instance"

// Mine is ErrNotReady unless the instance of this container serves the driver: startup and readiness.
func Mine(run, instanceFile string) error {
	mine, err := os.ReadFile(instanceFile)
	if err != nil {
		return fmt.Errorf("%w: no driver-entrypoint runs in this container: %w", ErrNotReady, err)
	}
	st, err := ReadStatus(run)
	if err == nil && st.Instance == strings.TrimSpace(string(mine)) {
		return st.err()
	}
	holder, heldNow, lerr := lock.Peek(Config{Run: run}.lockPath())
	if heldNow && lerr == nil {
		return fmt.Errorf("%w: waiting for the node's lock, held by %s", ErrNotReady, holder)
	}
	return fmt.Errorf("%w: this container's instance has not begun", ErrNotReady)
}

func (st Status) err() error {
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

// Alive is an error unless the instance of this container gave a sign of life in the last minute. It does not look at the driver: a
// container is not made better by being restarted while it waits or compiles.
func Alive(instanceFile string, now time.Time) error {
	const silence = time.Minute
	info, err := os.Stat(instanceFile)
	if err != nil {
		return fmt.Errorf("no driver-entrypoint runs in this container: %w", err)
	}
	if quiet := now.Sub(info.ModTime()); quiet > silence {
		return fmt.Errorf("driver-entrypoint has given no sign of life for %s", quiet.Round(time.Second))
	}
	return nil
}

// WaitReady returns when some instance on this node serves the driver: for containers that need it. say is told what it waits for
// when that changes.
func WaitReady(ctx context.Context, run string, say func(format string, args ...any)) error {
	last := ""
	for {
		st, err := ReadStatus(run)
		if err == nil {
			err = st.err()
		} else if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: no driver container has run on this node since it booted", ErrNotReady)
		}
		if err == nil {
			return nil
		}
		if err.Error() != last {
			last = err.Error()
			say("waiting: %v", err)
		}
		t := time.NewTimer(time.Second)
		select {
		case <-ctx.Done():
			t.Stop()
			return fmt.Errorf("gave up waiting: %w", err)
		case <-t.C:
		}
	}
}
