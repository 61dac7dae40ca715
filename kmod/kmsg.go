package kmod

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	maxKmsgRecord = 1 << 14 // bytes; the kernel makes them at most half of that
	maxKmsgReads  = 1 << 14 // records in one look: more than a kernel's buffer holds
	maxKmsgLines  = 400     // kept for an error; the last ones
	maxKmsgLine   = 1024    // bytes
)

// Mark is a place in the kernel's log. It holds a descriptor until Close. Not for use by several goroutines.
type Mark struct {
	fd      int
	partial []byte
	lines   []string
	tail    *string // of the whole log, where that is read by syslog(2); fd is not used then
}

// Mark remembers where the kernel's log ends now. It is exact: no clock and no sequence number is compared. The caller closes it.
func (s System) Mark() (*Mark, error) {
	path := or(s.Kmsg, "/dev/kmsg")
	// Not os.Open: the runtime would wait for more where the end is wanted.
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EPERM) && s.Kmsg == "" {
		if text, syslogErr := readSyslog(); syslogErr == nil {
			tail := syslogTail(text)
			return &Mark{fd: -1, tail: &tail}, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open the kernel's log %s: %w; it needs a privileged container, or CAP_SYSLOG", path, err)
	}
	if _, err := unix.Seek(fd, 0, io.SeekEnd); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("find the end of the kernel's log %s: %w", path, err)
	}
	return &Mark{fd: fd}, nil
}

// Lines returns what the kernel itself logged since the mark, without time stamps, oldest first, at most the last 400 lines.
// Messages that processes write into the kernel's log are left out. A nil Mark has no lines.
func (m *Mark) Lines() []string {
	if m == nil {
		return nil
	}
	if m.tail != nil {
		text, err := readSyslog()
		if err != nil {
			return nil
		}
		return parseSyslog(sinceTail(text, *m.tail))
	}
	buf := make([]byte, maxKmsgRecord)
	for range maxKmsgReads {
		n, err := unix.Read(m.fd, buf)
		if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.EINTR) { // EPIPE: older records were overwritten, go on with the next
			continue
		}
		if err != nil || n <= 0 {
			break
		}
		m.take(buf[:n])
	}
	return append([]string(nil), m.lines...)
}

// take adds what one read returned: one record of a kernel, any piece of a file that stands for it in a test.
func (m *Mark) take(b []byte) {
	m.partial = append(m.partial, b...)
	for {
		i := bytes.IndexByte(m.partial, '\n')
		if i < 0 {
			break
		}
		if facility, text, ok := parseKmsg(string(m.partial[:i])); ok && facility == 0 {
			m.lines = append(m.lines, text...)
		}
		m.partial = m.partial[i+1:]
	}
	if len(m.partial) > maxKmsgRecord {
		m.partial = nil
	}
	if extra := len(m.lines) - maxKmsgLines; extra > 0 {
		m.lines = append([]string(nil), m.lines[extra:]...)
	}
}

// Close gives the descriptor back.
func (m *Mark) Close() error {
	if m == nil || m.fd < 0 {
		return nil
	}
	fd := m.fd
	m.fd = -1
	return unix.Close(fd)
}

// parseKmsg reads the first line of a record (kernel: Documentation/ABI/testing/dev-kmsg):
//
//	priority and facility,sequence,microseconds,flags[,...];text
//
// Lines of its dictionary begin with a blank and are not records. \x0a in the text is a line end of the message.
func parseKmsg(line string) (facility int, text []string, ok bool) {
	prefix, message, found := strings.Cut(line, ";")
	if !found || strings.HasPrefix(line, " ") {
		return 0, nil, false
	}
	fields := strings.SplitN(prefix, ",", 4)
	if len(fields) < 3 {
		return 0, nil, false
	}
	level, err := strconv.ParseUint(fields[0], 10, 32)
	if err != nil {
		return 0, nil, false
	}
	return int(level >> 3), kernelText(unescape(message)), true
}

// kernelText are the lines of a message, fit to be shown.
func kernelText(message string) (text []string) {
	for part := range strings.SplitSeq(message, "\n") {
		if part = strings.TrimRight(printable(strings.ReplaceAll(part, "\t", " ")), " "); part != "" {
			text = append(text, strings.ToValidUTF8(part[:min(len(part), maxKmsgLine)], ""))
		}
	}
	return text
}

// unescape turns \xNN, as the kernel writes what is not printable ASCII, back into bytes.
func unescape(s string) string {
	if !strings.Contains(s, `\x`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) && s[i+1] == 'x' {
			if c, err := strconv.ParseUint(s[i+2:i+4], 16, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
