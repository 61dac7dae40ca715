// Package kmsg reads what the kernel logged since a moment: from /dev/kmsg, or with syslog(2) where
// a container may not open that.
//
// It writes nothing into the log and does not interpret it: see kmod.RefusedError for that.
package kmsg

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/distros/lazyregexp"
)

const (
	maxKmsgRecord = 1 << 14 // bytes; the kernel makes them at most half of that
	maxKmsgReads  = 1 << 14 // records in one read of the log: more than a kernel's buffer holds
	maxKmsgLines  = 400     // the last lines, kept for an error
	maxKmsgLine   = 1024    // bytes
)

// Mark is a position in the kernel's log. It holds a descriptor until Close. It is not safe for
// several goroutines.
type Mark struct {
	fd      int
	partial []byte
	lines   []string
	tail    *string // end of the whole log, where syslog(2) reads it; fd is then not used
}

// Open returns a Mark at the present end of the kernel's log. It is exact: it compares no clock and
// no sequence number. The caller closes it. The path "" is /dev/kmsg; tests name another file.
func Open(path string) (*Mark, error) {
	device := path == ""
	if device {
		path = "/dev/kmsg"
	}
	// Not os.Open: the runtime would wait for more records at the end of the log.
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil && device {
		if text, syslogErr := readSyslog(); syslogErr == nil {
			tail := syslogTail(text)
			return &Mark{fd: -1, tail: &tail}, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf(
			"open the kernel's log %s: %w; it needs a privileged container, or CAP_SYSLOG",
			path,
			err,
		)
	}
	if _, err := unix.Seek(fd, 0, io.SeekEnd); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("find the end of the kernel's log %s: %w", path, err)
	}
	return &Mark{fd: fd}, nil
}

// Lines returns the messages that the kernel logged since the mark, without time stamps, oldest
// first, at most the last 400 lines. It leaves out messages that processes write into the kernel's
// log. A nil Mark has no lines.
func (m *Mark) Lines() []string {
	if m == nil {
		return nil
	}
	if m.tail != nil {
		text, err := readSyslog()
		if err != nil || text == "" {
			return slices.Clone(m.lines)
		}
		m.add(parseSyslog(sinceTail(text, *m.tail)))
		*m.tail = syslogTail(text)
		return slices.Clone(m.lines)
	}
	buf := make([]byte, maxKmsgRecord)
	for range maxKmsgReads {
		n, err := unix.Read(m.fd, buf)
		// EPIPE: older records were overwritten; continue with the next
		if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n <= 0 {
			break
		}
		m.take(buf[:n])
	}
	return slices.Clone(m.lines)
}

// Next returns the lines since the mark, as Lines does, and moves the mark to the present end of
// the log: the next call returns what came later.
func (m *Mark) Next() []string {
	lines := m.Lines()
	if m != nil {
		m.lines = nil
	}
	return lines
}

// Copies says whether each read copies the whole log, because /dev/kmsg could not be opened.
func (m *Mark) Copies() bool { return m != nil && m.tail != nil }

func (m *Mark) add(lines []string) {
	m.lines = append(m.lines, lines...)
	m.lines = slices.Delete(m.lines, 0, max(0, len(m.lines)-maxKmsgLines))
}

// take adds the result of one read: one record from a kernel, any piece of the file that imitates
// it in a test.
func (m *Mark) take(b []byte) {
	m.partial = append(m.partial, b...)
	for {
		i := bytes.IndexByte(m.partial, '\n')
		if i < 0 {
			break
		}
		if facility, text, ok := parseKmsg(string(m.partial[:i])); ok && facility == 0 {
			m.add(text)
		}
		m.partial = m.partial[i+1:]
	}
	if len(m.partial) > maxKmsgRecord {
		m.partial = nil
	}
}

// Close closes the descriptor.
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
// Lines of the record's dictionary begin with a blank and are not records. \x0a in the text is a
// line end of the message.
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

// kernelText returns the lines of a message, printable.
func kernelText(message string) (text []string) {
	for part := range strings.SplitSeq(message, "\n") {
		part = strings.TrimRight(Printable(strings.ReplaceAll(part, "\t", " ")), " ")
		if part != "" {
			text = append(text, strings.ToValidUTF8(part[:min(len(part), maxKmsgLine)], ""))
		}
	}
	return text
}

var escapedByte = lazyregexp.New(`\\x[0-9a-fA-F]{2}`)

// unescape turns \xNN, which the kernel writes for bytes that are not printable ASCII, back into
// bytes.
func unescape(s string) string {
	return escapedByte().ReplaceAllStringFunc(s, func(escape string) string {
		b, _ := hex.DecodeString(escape[2:]) //nolint:errcheck // two hex digits
		return string(b)
	})
}

// Printable replaces characters that would garble a log line or a terminal: control characters, and
// marks that change the direction of text.
func Printable(s string) string { return strings.Map(printable, s) }

func printable(r rune) rune {
	if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
		return '?'
	}
	return r
}

// PrintableLines does the same with each line of a text, and replaces tabs by blanks.
func PrintableLines(s string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '\n':
			return r
		case '\t':
			return ' '
		}
		return printable(r)
	}, s)
}
