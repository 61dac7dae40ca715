package guest

import (
	"io"
	"regexp"
	"strings"
	"sync"

	"github.com/driver-container/driver-container/distros/escape"
)

// maxConsole bounds what is kept of a console, in bytes.
const maxConsole = 1 << 20

// lastPart keeps the end of what is written to it.
type lastPart struct {
	mu   sync.Mutex
	text []byte
	cut  bool
}

// Write never fails.
func (l *lastPart) Write(part []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, part...)
	if len(l.text) > 2*maxConsole {
		l.cut = true
		l.text = append([]byte(nil), l.text[len(l.text)-maxConsole:]...)
	}
	return len(part), nil
}

// read copies a stream to its end.
func (l *lastPart) read(from io.Reader) { _, _ = io.Copy(l, from) } // it ends with QEMU

var sequences = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`)

// String returns the text without colours and positions of a cursor, escaped.
func (l *lastPart) String() string {
	l.mu.Lock()
	text := string(l.text)
	cut := l.cut
	l.mu.Unlock()
	text = sequences.ReplaceAllString(text, "")
	text = strings.ReplaceAll(text, "\r", "")
	lines := strings.Split(strings.ToValidUTF8(text, "?"), "\n")
	for i, line := range lines {
		lines[i] = escape.Text(line)
	}
	text = strings.Join(lines, "\n")
	if cut {
		return "[what came before is left out]\n" + text
	}
	return text
}

// shown is how much of a text an error has, in bytes.
const shown = 2000

// tail shortens a text for an error: what went wrong is at its end.
func tail(text string) string {
	text = strings.TrimSpace(text)
	if len(text) > shown {
		text = "[...]" + strings.ToValidUTF8(text[len(text)-shown:], "")
	}
	return escape.Text(text)
}
