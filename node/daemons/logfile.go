package daemons

import (
	"io"
	"os"
	"strings"
	"time"
)

// maxLogTail bounds how much of the end of a log file is read.
const maxLogTail = 4 << 10

// logFile is a file that a daemon writes its messages to, and when the daemon was started.
type logFile struct {
	path  string
	since time.Time
}

// said returns the last lines that the program has printed, or if there are none, those of its log file.
func (p *process) said() []string {
	if lines := p.out.last(); len(lines) > 0 {
		return lines
	}
	return p.log.last()
}

// last returns the last lines of the file, if it was written since the start of the daemon.
func (l logFile) last() []string {
	file, err := os.Open(l.path)
	if err != nil {
		return nil
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil || !st.Mode().IsRegular() || st.ModTime().Before(l.since.Truncate(time.Second)) {
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
