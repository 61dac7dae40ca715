package compression

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"syscall"

	"github.com/driver-container/driver-container/distros/bounded"
)

const (
	// smallest is the fewest compressed bytes that are worth a process: below, to start one takes
	// more processor time than it saves.
	smallest    = 64 << 10
	memoryExtra = 8 << 20 // bytes that the program needs besides the dictionary
	maxMessages = 512     // bytes of the program's messages
)

// OpenXZ returns the content of an .xz stream. It reads in up to its end, also beyond the calls of
// Read, until Close.
type OpenXZ func(in io.Reader) (io.ReadCloser, error)

// XZProgram is the path of an xz program, which is faster than Go; "" decompresses in Go.
type XZProgram string

// FindXZ returns the xz program of this machine.
func FindXZ() XZProgram {
	path, err := exec.LookPath("xz")
	if err != nil {
		return ""
	}
	return XZProgram(path)
}

// Open returns how streams are opened. It ends the program when ctx ends.
func (p XZProgram) Open(ctx context.Context) OpenXZ {
	return func(in io.Reader) (io.ReadCloser, error) {
		if p == "" {
			return NewReader(in, XZ)
		}
		begin := bufio.NewReaderSize(in, smallest)
		if _, err := begin.Peek(smallest); err != nil { // its end, or an error that comes again
			return NewReader(begin, XZ)
		}
		return p.start(ctx, begin)
	}
}

// process is a running xz program: a stream goes in, its content comes out.
type process struct {
	ctx      context.Context //nolint:containedctx // lives as long as one stream, which it cancels
	cancel   context.CancelFunc
	cmd      *exec.Cmd
	out      io.Reader
	messages bounded.Buffer
	end      error // of all further reads
}

// start runs the program in a process group of its own, so that Ctrl-C ends it only by ctx, and
// without the environment: XZ_OPT and XZ_DEFAULTS change what it does.
func (p XZProgram) start(ctx context.Context, in io.Reader) (io.ReadCloser, error) {
	child, cancel := context.WithCancel(ctx)
	r := &process{ctx: ctx, cancel: cancel, messages: bounded.Buffer{Limit: maxMessages}}
	r.cmd = exec.CommandContext(child, string(p), "--decompress", "--stdout", "--format=xz", "--threads=1", //nolint:gosec // the machine's xz
		"--memlimit-decompress="+strconv.Itoa(MaxWindow+memoryExtra))
	r.cmd.Env = []string{"LC_ALL=C"}
	r.cmd.Dir = "/"
	r.cmd.Stdin = in
	r.cmd.Stderr = &r.messages
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	r.cmd.Cancel = func() error { return syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL) }
	var err error
	r.out, err = r.cmd.StdoutPipe()
	if err != nil {
		cancel()
		return nil, r.failed(err)
	}
	err = r.cmd.Start()
	if err != nil {
		cancel()
		return nil, r.failed(err)
	}
	return r, nil
}

func (r *process) Read(p []byte) (int, error) {
	if r.end != nil {
		return 0, r.end
	}
	n, err := r.out.Read(p)
	if err != nil {
		r.end = io.EOF
		err = r.cmd.Wait()
	}
	if err != nil {
		r.end = r.failed(err)
	}
	return n, r.end
}

// failed says why the program failed; an error of the stream's own source is not the program's.
func (r *process) failed(err error) error {
	if r.ctx.Err() != nil {
		return r.ctx.Err()
	}
	said := bytes.TrimSpace(r.messages.Kept)
	return fmt.Errorf(
		"%s: %w %s; if the stream is sound, repair the program or remove it from PATH",
		r.cmd.Path,
		err,
		said,
	)
}

// Close ends the program. Nothing reads the source after it.
func (r *process) Close() error {
	r.cancel()
	if r.end == nil {
		r.end = errors.New("the stream is closed")
		_ = r.cmd.Wait() // it was killed
	}
	return nil
}
