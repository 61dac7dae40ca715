package kmod

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A container that is not privileged may not open /dev/kmsg: the cgroup of its devices refuses it. With CAP_SYSLOG it may ask syslog(2) for
// all that the kernel has logged, and what is new is what comes after the end of the last answer.

const (
	syslogReadAll = 3        // SYSLOG_ACTION_READ_ALL
	syslogSize    = 10       // SYSLOG_ACTION_SIZE_BUFFER
	maxSyslog     = 16 << 20 // bytes
	maxSyslogTail = 4 << 10  // bytes by which the end of an answer is known in the next
)

// readSyslog is what the kernel has in its log, "<6>[    1.234567] text" in each line.
func readSyslog() (string, error) {
	size, err := unix.Klogctl(syslogSize, nil)
	if err != nil {
		return "", fmt.Errorf("ask for the size of the kernel's log: %w; it needs CAP_SYSLOG", err)
	}
	// The text of a full buffer is longer than the buffer, by what stands before each line.
	b := make([]byte, min(max(4*size, 1<<16), maxSyslog))
	n, err := unix.Klogctl(syslogReadAll, b)
	if err != nil {
		return "", fmt.Errorf("read the kernel's log: %w; it needs CAP_SYSLOG", err)
	}
	return string(b[:n]), nil
}

func syslogTail(text string) string { return text[max(0, len(text)-maxSyslogTail):] }

// sinceTail is what a log has after the tail of an earlier answer: all of it when so much was logged that the tail is gone.
func sinceTail(text, tail string) string {
	if i := strings.LastIndex(text, tail); i >= 0 {
		return text[i+len(tail):]
	}
	return text
}

// parseSyslog takes what the kernel itself logged: facility 0. Lines of others, and the rest of a line that was overwritten, are left out.
func parseSyslog(text string) (lines []string) {
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, "<")
		level, message, found := strings.Cut(rest, ">")
		if n, err := strconv.ParseUint(level, 10, 16); !ok || !found || err != nil || n>>3 != 0 {
			continue
		}
		lines = append(lines, kernelText(withoutTime(strings.TrimRight(message, "\n")))...)
	}
	return lines[max(0, len(lines)-maxKmsgLines):]
}

// withoutTime removes "[    1.234567] ", which is there unless the kernel was told otherwise, and what may follow of the same kind: the caller
// ("[    T1] ").
func withoutTime(message string) string {
	for range 2 {
		stamp, rest, found := strings.Cut(message, "]")
		if !found || !strings.HasPrefix(stamp, "[") || strings.Trim(stamp[1:], " .0123456789TC") != "" {
			break
		}
		message = strings.TrimPrefix(rest, " ")
	}
	return message
}
