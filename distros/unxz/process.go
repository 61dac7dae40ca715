package unxz

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

const (
	memoryExtra = 8 << 20 // bytes that the program needs besides the dictionary
	stderrKept  = 512     // bytes of its messages
	feedSize    = 64 << 10
)

// process is a running xz program: a stream goes in, its content comes out.
type process struct {
	cmd    *exec.Cmd
	cancel context.CancelFunc
	in     *os.File      // for the goroutine that feeds it
	out    *os.File      // its content
	fed    chan struct{} // closed when first is not used any more
	stderr head
	ended  bool
	result error
}

// head keeps the beginning of what is written to it.
type head struct{ text []byte }

func (h *head) Write(p []byte) (int, error) {
	h.text = append(h.text, p[:min(len(p), stderrKept-len(h.text))]...)
	return len(p), nil
}

// start runs the program in a process group of its own, so that Ctrl-C ends it only by ctx, and without the
// environment: XZ_OPT and XZ_DEFAULTS change what it does.
func start(ctx context.Context, path string, first io.Reader, dictionary uint32) (*process, error) {
	ctx, cancel := context.WithCancel(ctx)
	p := &process{cancel: cancel, fed: make(chan struct{})}
	p.cmd = exec.CommandContext(ctx, path, "--decompress", "--stdout", "--format=xz", "--threads=1", //nolint:gosec // the machine's xz
		"--memlimit-decompress="+strconv.FormatUint(uint64(dictionary)+memoryExtra, 10))
	p.cmd.Env, p.cmd.Dir, p.cmd.Stderr = []string{"LC_ALL=C"}, "/", &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Cancel = func() error { return syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }
	p.cmd.WaitDelay = time.Second // for its messages, if it leaves a child behind
	childIn, in, err := os.Pipe()
	if err != nil {
		cancel()
		return nil, err
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		cancel()
		return nil, errors.Join(err, childIn.Close(), in.Close())
	}
	p.in, p.out, p.cmd.Stdin, p.cmd.Stdout = in, out, childIn, childOut
	err = p.cmd.Start()
	err = errors.Join(err, childIn.Close(), childOut.Close())
	if err != nil {
		cancel()
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	go p.feed(first)
	return p, nil
}

// feed does not say why it ended: if that was not the end of first, the content is incomplete too.
func (p *process) feed(first io.Reader) {
	defer close(p.fed)
	defer p.in.Close() //nolint:errcheck // a pipe
	_, _ = io.CopyBuffer(struct{ io.Writer }{p.in}, struct{ io.Reader }{first}, make([]byte, feedSize))
}

// read waits for content at most so long.
func (p *process) read(buf []byte, wait time.Duration) (int, error) {
	if err := p.out.SetReadDeadline(time.Now().Add(wait)); err != nil {
		return 0, err
	}
	n, err := p.out.Read(buf)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("it wrote nothing for %s", wait)
	}
	return n, err
}

// wait returns how the program ended, and kills it if that takes too long.
func (p *process) wait(patience time.Duration) error {
	if p.ended {
		return p.result
	}
	p.ended = true
	kill := time.AfterFunc(patience, p.cancel)
	defer kill.Stop()
	err := p.cmd.Wait()
	p.cancel()
	_ = p.in.Close() // wakes feed if it waits in a write
	<-p.fed
	_ = p.out.Close() // a pipe that is read only
	if err != nil {
		if text := bytes.TrimSpace(p.stderr.text); len(text) > 0 {
			err = fmt.Errorf("%w: %q", err, text)
		}
	}
	p.result = err
	return err
}

// stop kills the program. first is not used any more when it returns.
func (p *process) stop() {
	p.cancel()
	_ = p.wait(0)
}
