package lock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Options of Acquire. Path and Legacy are required.
type Options struct {
	Path    string        // our own file, /run/nvidia/driver-entrypoint.lock
	Legacy  string        // NVIDIA's file, /run/nvidia/nvidia-driver.pid
	Self    Holder        // written into the files; PID 0 means this process, Since zero means now
	Timeout time.Duration // how long to wait for another holder; 0: only one attempt
	Every   time.Duration // how often Say tells who holds it, default 30 s
	Poll    time.Duration // how often to try, default 1 s
	Say     func(format string, args ...any)
	Waits   func(h Holder) // told as often as Say while another holds it; may be nil
}

// ErrHeld is what errors.Is finds in a *HeldError.
var ErrHeld = errors.New("another driver container holds the lock of this node")

// HeldError says that another instance held the lock for as long as we waited.
type HeldError struct {
	Path   string // the file or folder that is locked
	Holder Holder
	Waited time.Duration
	file   os.FileInfo // what is locked
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("%v: %s is locked by %s, waited %v; end that instance, or wait longer with --lock-timeout",
		ErrHeld, e.Path, e.Holder, e.Waited.Round(time.Millisecond))
}

// Is makes errors.Is(err, ErrHeld) true.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// Lock is held until Release, or until the process ends in whatever way. It is not safe for concurrent use.
type Lock struct {
	path, legacyPath    string
	own, folder, legacy *os.File
	self                Holder
}

// quick: so many attempts are made at once before anybody is called the holder. What they see may be status looking (Peek) or
// another instance between two steps.
const quick = 3

// Acquire waits until all three locks are held. It returns a *HeldError after o.Timeout, and an error that wraps ctx.Err() at once when
// ctx ends; nothing but the empty lock file may then be new on the node.
func Acquire(ctx context.Context, o Options) (*Lock, error) {
	o = o.withDefaults()
	if err := os.MkdirAll(filepath.Dir(o.Path), 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of the driver's lock: %w; is /run/nvidia mounted and writable?", err)
	}
	began := time.Now()
	poll := time.NewTimer(0)
	defer poll.Stop()
	var told time.Time
	for try := 0; ; try++ {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the driver's lock %s: %w", o.Path, ctx.Err())
		case <-poll.C:
		}
		if ctx.Err() != nil { // both were ready
			return nil, fmt.Errorf("wait for the driver's lock %s: %w", o.Path, ctx.Err())
		}
		l, err := attempt(o)
		if err == nil {
			if !told.IsZero() {
				o.Say("lock: taken after %v", time.Since(began).Round(time.Second))
			}
			return l, nil
		}
		var held *HeldError
		if !errors.As(err, &held) {
			return nil, err
		}
		if try < quick {
			poll.Reset(10 * time.Millisecond)
			continue
		}
		if held.Waited = time.Since(began); held.Waited >= o.Timeout {
			held.identify("/proc")
			return nil, held
		}
		if now := time.Now(); told.IsZero() || now.Sub(told) >= o.Every {
			told = now
			held.identify("/proc")
			o.Say("lock: %s is locked by %s; waiting, %v left", held.Path, held.Holder, (o.Timeout - held.Waited).Round(time.Second))
			o.Waits(held.Holder)
		}
		poll.Reset(min(o.Poll, o.Timeout-held.Waited))
	}
}

func (o Options) withDefaults() Options {
	if o.Every <= 0 {
		o.Every = 30 * time.Second
	}
	if o.Poll <= 0 {
		o.Poll = time.Second
	}
	if o.Self.PID == 0 {
		o.Self.PID = os.Getpid()
	}
	if o.Say == nil {
		o.Say = func(string, ...any) {}
	}
	if o.Waits == nil {
		o.Waits = func(Holder) {}
	}
	return o
}

// attempt takes all or nothing. The order is the same for everybody, so that two cannot each hold what the other needs.
func attempt(o Options) (*Lock, error) {
	l := &Lock{path: o.Path, legacyPath: o.Legacy, self: o.Self}
	var err error
	if l.own, err = takeAgain(o.Path); err == nil {
		dir := filepath.Dir(o.Path)
		if l.folder, err = takeFolder(dir); errors.Is(err, unix.EWOULDBLOCK) {
			err = heldBy(l.folder) // its file was unlinked by force: what has that name now is ours and empty
		}
	}
	if err == nil {
		l.legacy, err = takeAgain(o.Legacy)
	}
	if err == nil {
		err = l.sign()
	}
	if err != nil {
		l.close()
		return nil, plain(err)
	}
	return l, nil
}

// plain keeps a *HeldError and says of everything else what was being done.
func plain(err error) error {
	if errors.Is(err, ErrHeld) {
		return err
	}
	return fmt.Errorf("take the driver's lock: %w; is /run/nvidia mounted and writable?", err)
}

// takeAgain is take, patient with a file that is being replaced, and with a *HeldError where take has unix.EWOULDBLOCK.
func takeAgain(path string) (*os.File, error) {
	for range 20 {
		f, err := take(path)
		if errors.Is(err, errReplaced) {
			continue
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return f, err
		}
		err = heldBy(f)
		f.Close()
		return nil, err
	}
	return nil, fmt.Errorf("%s: %w, twenty times", path, errReplaced)
}

func heldBy(f *os.File) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	e := &HeldError{Path: f.Name(), file: st}
	if st.Mode().IsRegular() {
		e.Holder = readHolder(f)
	}
	return e
}

// sign writes the holder into both files.
func (l *Lock) sign() error {
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
			f.Close()
		}
	}
}
