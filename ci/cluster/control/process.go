package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	startLimit = 5 * time.Minute  // for each program
	quietStart = 4 * time.Second  // of the slowest program, the API server, on an idle machine
	stopLimit  = 15 * time.Second // how long a program may take to end before it is killed
)

// process is a program that runs until it is stopped.
type process struct {
	name string
	log  string // path of its output
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // valid after done is closed
}

// start runs a program with its output in DIR/NAME.log. If this process dies without stopping the program,
// the kernel kills it.
func start(dir, bin, name string, args ...string) (*process, error) {
	p := &process{name: name, log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	p.cmd = exec.Command(filepath.Join(bin, name), args...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, out, out
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the death signal is sent when the thread that started the program ends
		defer runtime.UnlockOSThread()
		defer out.Close()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// running says whether the program still runs.
func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// await returns nil when check succeeds. It returns an error when the program ends before that, or when the
// limit has passed.
func (p *process) await(ctx context.Context, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended before it was ready: %w; its last lines:\n%s", p.name, p.err, logTail(p.log))
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w; the last answer: %w", p.name, ctx.Err(), err)
		case <-tick.C:
		}
	}
}

// stop ends the program and waits for its end. If the program had ended before, that is an error of the test:
// it should have been running.
func (p *process) stop(t testing.TB) {
	if !p.running() {
		t.Errorf("%s ended by itself: %v; its last lines:\n%s", p.name, p.err, logTail(p.log))
		return
	}
	timer := time.NewTimer(stopLimit)
	defer timer.Stop()
	signal := func(s os.Signal) {
		if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("end %s: %v", p.name, err)
		}
	}
	signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-timer.C:
		signal(syscall.SIGKILL)
		<-p.done
	}
}

// logTail returns the end of a log file, for messages.
func logTail(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	var last tail
	if _, err := io.Copy(&last, file); err != nil {
		return err.Error()
	}
	return last.String()
}

// tail keeps the end of the data written to it.
type tail struct {
	mu   sync.Mutex
	data []byte
}

const tailSize = 8 << 10

// Write never fails.
func (w *tail) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.data = append(w.data, b...)
	if len(w.data) > 2*tailSize {
		w.data = append([]byte(nil), w.data[len(w.data)-tailSize:]...)
	}
	return len(b), nil
}

// String returns the last whole lines.
func (w *tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := string(w.data)
	if len(text) > tailSize {
		text = text[len(text)-tailSize:]
		_, text, _ = strings.Cut(text, "\n")
	}
	return text
}
