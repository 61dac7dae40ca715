package daemons

import (
	"bufio"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/driver-container/driver-container/kmod/kmsg"
)

// Limits of what is kept of a daemon's output.
const (
	tailLines  = 20
	tailLength = 500
	maxLogTail = 4 << 10 // bytes of the end of a log file that are read
)

// tail keeps the last lines of a daemon's output and discards the rest, so that the daemon never
// blocks on a full pipe.
type tail struct {
	mu    sync.Mutex
	lines []string
	r     *os.File
	done  chan struct{}
}

// newTail also returns the writing end for the program, which the caller closes after the start. A
// tail ends by itself when no process has the writing end open any more, else by close.
func newTail() (*tail, *os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	t := &tail{r: r, done: make(chan struct{})}
	go t.read()
	return t, w, nil
}

func (t *tail) read() {
	defer close(t.done)
	b := bufio.NewReaderSize(t.r, 4096)
	for {
		line, err := b.ReadSlice('\n') // a line longer than the buffer comes in pieces
		t.add(string(line))
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

func (t *tail) add(line string) {
	line = strings.TrimSpace(line)
	line = kmsg.PrintableLines(line[:min(len(line), tailLength)])
	if line == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, line)
	t.lines = slices.Delete(t.lines, 0, max(0, len(t.lines)-tailLines))
}

func (t *tail) last() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.lines)
}

// close ends the reading, after the program has ended. It still reads what the program wrote, but
// does not wait for other processes that have the pipe open.
func (t *tail) close() {
	_ = t.r.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	<-t.done
	t.r.Close()
}

// lastLines returns the last lines that the program has printed, or if there are none, those of its log
// file.
func (p *process) lastLines() []string {
	if lines := p.out.last(); len(lines) > 0 {
		return lines
	}
	return logTail(p.log, p.began)
}

// logTail returns the last lines of a file, if it was written since a daemon was started.
func logTail(path string, since time.Time) []string {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil || !st.Mode().IsRegular() || st.ModTime().Before(since.Truncate(time.Second)) {
		return nil
	}
	text, err := io.ReadAll(io.NewSectionReader(file, max(0, st.Size()-maxLogTail), maxLogTail))
	if err != nil {
		return nil
	}
	var t tail
	for line := range strings.Lines(string(text)) {
		t.add(line)
	}
	return t.last()
}
