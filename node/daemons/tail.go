package daemons

import (
	"bufio"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
)

// What is kept of a daemon's output.
const (
	tailLines  = 20
	tailLength = 500
)

// tail keeps the last lines of a daemon's output and reads the rest away, so that the daemon never blocks on a full pipe.
type tail struct {
	mu    sync.Mutex
	lines []string
	r     *os.File
	done  chan struct{}
}

// newTail returns the end for the program to write to, which the caller closes after the start. A tail ends by itself when nobody has
// that end any more, else by close.
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
		line, err := b.ReadSlice('\n') // a line that is longer than the buffer comes in pieces
		t.add(string(line))
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

func (t *tail) add(line string) {
	line = strings.Map(func(r rune) rune {
		if r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return -1
	}, line)
	line = strings.TrimSpace(strings.ToValidUTF8(line[:min(len(line), tailLength)], ""))
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

// close ends the reading. It is for a program that has ended: what it wrote is still read, but nobody is waited for who holds
// the pipe open.
func (t *tail) close() {
	_ = t.r.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	<-t.done
	t.r.Close()
}
