package runner

import (
	"bytes"
	"slices"
	"strings"
	"sync"
)

const (
	tailLines = 40       // of FailedError
	maxLine   = 16 << 10 // bytes; a longer line is passed on in pieces, so that a command without newlines does not fill the memory
)

// Lines splits the output of a command into lines, passes each on and keeps the last ones. Its memory is
// bounded for any input. It is an io.Writer that never fails, and several goroutines may use it.
type Lines struct {
	mu     sync.Mutex
	output func(string)
	part   []byte
	tail   []string // ring: next is the oldest line once it is full
	next   int
}

// NewLines returns a Lines that calls output for every line. output may be nil.
func NewLines(output func(line string)) *Lines { return &Lines{output: output} }

// Write takes a piece of output of any length.
func (l *Lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(p)
	for len(p) > 0 {
		room := maxLine - len(l.part)
		i := bytes.IndexByte(p, '\n')
		switch {
		case i >= 0 && i <= room:
			l.line(append(l.part, p[:i]...))
			p = p[i+1:]
		case len(p) < room:
			l.part = append(l.part, p...)
			p = nil
		default:
			l.line(append(l.part, p[:room]...))
			p = p[room:]
		}
	}
	return n, nil
}

// Tail ends an unfinished last line and returns the last lines, the oldest first.
func (l *Lines) Tail() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.part) > 0 {
		l.line(l.part)
	}
	return slices.Concat(l.tail[l.next:], l.tail[:l.next])
}

func (l *Lines) line(b []byte) {
	s := strings.ToValidUTF8(strings.TrimSuffix(string(b), "\r"), "�")
	l.part = l.part[:0]
	if len(l.tail) < tailLines {
		l.tail = append(l.tail, s)
	} else {
		l.tail[l.next] = s
		l.next = (l.next + 1) % tailLines
	}
	if l.output != nil {
		l.output(s)
	}
}
