package runner

import (
	"bytes"
	"strings"
	"sync"
)

const (
	tailLines = 40 // of FailedError
	// bytes; a longer line is passed on in pieces, so that a command without newlines does not fill
	// the memory
	maxLine = 16 << 10
)

// Lines splits the output of a command into lines, passes each on and keeps the last ones. Its
// memory is bounded for any input. Several goroutines may use it.
type Lines struct {
	mu     sync.Mutex
	output func(string)
	parts  [3][]byte // unfinished lines: one stream does not split the lines of another
	tail   []string
}

// NewLines returns a Lines that calls output for every line. output may be nil.
func NewLines(output func(line string)) *Lines { return &Lines{output: output} }

// Write takes a piece, of any length, of the output of a command that has one stream. It never
// fails.
func (l *Lines) Write(p []byte) (int, error) {
	l.Add(0, p)
	return len(p), nil
}

// Add takes a piece of one of the streams, which have the numbers 0 to 2.
func (l *Lines) Add(stream int, p []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	part := &l.parts[min(max(stream, 0), len(l.parts)-1)]
	for len(p) > 0 {
		line, rest, ended := bytes.Cut(p, []byte("\n"))
		if room := maxLine - len(*part); len(line) > room {
			line = p[:room]
			rest = p[room:]
			ended = true
		}
		*part = append(*part, line...)
		p = rest
		if ended {
			l.line(part)
		}
	}
}

// Tail ends unfinished lines and returns the last lines, the oldest first.
func (l *Lines) Tail() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.parts {
		if len(l.parts[i]) > 0 {
			l.line(&l.parts[i])
		}
	}
	return l.tail
}

// End lets no further line reach the function of NewLines.
func (l *Lines) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.output = nil
}

func (l *Lines) line(part *[]byte) {
	s := strings.ToValidUTF8(strings.TrimSuffix(string(*part), "\r"), "�")
	*part = (*part)[:0]
	l.tail = append(l.tail[max(0, len(l.tail)+1-tailLines):], s)
	if l.output != nil {
		l.output(s)
	}
}
