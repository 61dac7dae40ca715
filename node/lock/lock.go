// Package lock makes sure that at most one driver container works on a node, ours or NVIDIA's.
//
// Acquire takes three locks, all or none. Each is an flock(2): it works between containers that
// share the node's /run, and the kernel drops it when the holder is killed.
//
//   - our own file: it is never unlinked, and the holder is written into it, for people and for the status;
//   - the folder of that file: somebody can unlink the file by force, the next instance would then lock a new
//     inode and believe itself alone; a folder that is a mount or has content cannot be replaced like this;
//   - the file of NVIDIA's container, /run/nvidia/nvidia-driver.pid, so that NVIDIA's image and ours exclude
//     each other.
//
// This package avoids three faults of NVIDIA's scheme: an instance that does not get the lock never
// truncates the holder's process id (content is changed only with the lock held); an unlinked file
// is not taken for the lock (the inode is compared after locking); no child inherits a descriptor
// (O_CLOEXEC). One gap of NVIDIA's scheme cannot be closed from this side: when their script has
// opened the legacy file, and calls flock only after we released and removed it, the script holds
// an unlinked file. That window is microseconds.
//
// The package starts nothing in the background: the caller has to call Lost at intervals.
package lock

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Options of Acquire. Run is required.
type Options struct {
	Run string // folder that all instances share, /run/nvidia
	// written into the files; PID 0 means this process, Since zero means now
	Self        Holder
	Timeout     time.Duration // how long to wait for another holder; 0: one attempt only
	LogInterval time.Duration // how often the holder is logged during the wait, default 30 s
	Poll        time.Duration // pause between attempts, default 1 s
	Log         *slog.Logger  // may be nil
	// called once per LogInterval while another instance holds the lock; may be nil
	OnWait func(h Holder)
}

// ErrHeld is what errors.Is finds in a *HeldError.
var ErrHeld = errors.New("another driver container holds the lock of this node")

// HeldError says that another instance held the lock during our whole wait.
type HeldError struct {
	Path   string // the file or folder that is locked
	Holder Holder
	Waited time.Duration
}

func (e *HeldError) Error() string {
	return fmt.Sprintf(
		"%v: %s is locked by %s, waited %v; end that instance (if its process is gone, `fuser %s` on the node names what inherited the lock), or wait longer with --lock-timeout",
		ErrHeld,
		e.Path,
		e.Holder,
		e.Waited.Round(time.Millisecond),
		e.Path,
	)
}

// Is makes errors.Is(err, ErrHeld) true.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// Lock is held until Release or until the process ends, even by SIGKILL. It is not safe for
// concurrent use.
type Lock struct {
	own, folder, legacy *os.File
	self                Holder
}

// quickAttempts is the number of attempts in quick succession before Acquire reports another
// holder. During these the lock may be taken by peek for a moment, or by an instance that has not
// taken all three locks yet.
const quickAttempts = 3

// Acquire waits until all three locks are held. It returns a *HeldError after o.Timeout, and at
// once an error that wraps ctx.Err() when ctx ends. After an error at most the empty lock file is
// new on the node.
func Acquire(ctx context.Context, o Options) (*Lock, error) {
	o.LogInterval = cmp.Or(o.LogInterval, 30*time.Second)
	o.Poll = cmp.Or(o.Poll, time.Second)
	o.Self.PID = cmp.Or(o.Self.PID, os.Getpid())
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if err := os.MkdirAll(o.Run, 0o755); err != nil {
		return nil, fmt.Errorf(
			"make the folder of the driver's lock: %w; is /run/nvidia mounted and writable?",
			err,
		)
	}
	began := time.Now()
	var lastLogged time.Time
	for try := 0; ; try++ {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("wait for the driver's lock %s: %w", o.Run, ctx.Err())
		}
		l, err := attempt(o)
		held, waits := errors.AsType[*HeldError](err)
		if !waits {
			if err == nil && !lastLogged.IsZero() {
				o.Log.Info("lock taken", "duration", time.Since(began).Round(time.Second))
			}
			return l, err
		}
		pause := 10 * time.Millisecond
		held.Waited = time.Since(began)
		if try >= quickAttempts {
			if held.Waited >= o.Timeout {
				return nil, held
			}
			if time.Since(lastLogged) >= o.LogInterval {
				lastLogged = time.Now()
				o.Log.Info(
					"waiting for the lock",
					"path",
					held.Path,
					"holder",
					held.Holder.String(),
					"remaining",
					(o.Timeout - held.Waited).Round(time.Second),
				)
				if o.OnWait != nil {
					o.OnWait(held.Holder)
				}
			}
			pause = min(o.Poll, o.Timeout-held.Waited)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// attempt takes all locks or none. Every instance takes them in the same order, so that two
// instances cannot each hold what the other needs.
func attempt(o Options) (*Lock, error) {
	l := &Lock{self: o.Self}
	err := l.take(o.Run)
	if err != nil {
		l.close()
		return nil, wrapAttempt(err)
	}
	return l, nil
}

func (l *Lock) take(run string) (err error) {
	l.own, err = lockFile(Path(run))
	if err != nil {
		return err
	}
	// held: that file was unlinked by force, and is a new one that we made
	l.folder, err = lockFolder(run)
	if err != nil {
		return err
	}
	l.legacy, err = lockFile(LegacyPath(run))
	if err != nil {
		return err
	}
	return l.writeHolder()
}

// wrapAttempt keeps a *HeldError and adds to every other error what was attempted.
func wrapAttempt(err error) error {
	if errors.Is(err, ErrHeld) {
		return err
	}
	return fmt.Errorf("take the driver's lock: %w; is /run/nvidia mounted and writable?", err)
}

// writeHolder writes the holder into both files.
func (l *Lock) writeHolder() error {
	if l.self.Since.IsZero() {
		l.self.Since = time.Now().UTC().Truncate(time.Second)
	}
	content, err := json.Marshal(l.self)
	if err != nil {
		return fmt.Errorf("describe the holder: %w", err)
	}
	if err := overwrite(l.own, append(content, '\n')); err != nil {
		return err
	}
	return overwrite(l.legacy, []byte(strconv.Itoa(l.self.PID)+"\n"))
}

func (l *Lock) close() {
	for _, f := range []*os.File{l.legacy, l.own, l.folder} {
		if f != nil {
			// a child has the file open, too, until it starts its program
			_ = flock(f, unix.LOCK_UN)
			f.Close()
		}
	}
}
