package kmsg

import (
	"regexp"
	"strconv"
	"strings"
)

// A container that is not privileged has no /dev/kmsg, or its device cgroup refuses it. With
// CAP_SYSLOG it may ask syslog(2) for everything that the kernel has logged; new lines are those
// after the end of the last answer.

const (
	maxSyslog     = 16 << 20 // bytes
	maxSyslogTail = 4 << 10  // bytes at the end of an answer by which the next answer is aligned
)

func syslogTail(text string) string { return text[max(0, len(text)-maxSyslogTail):] }

// sinceTail returns what a log has after the tail of an earlier answer; the whole log when the tail
// was overwritten.
func sinceTail(text, tail string) string {
	if i := strings.LastIndex(text, tail); i >= 0 {
		return text[i+len(tail):]
	}
	return text
}

// parseSyslog returns the messages of the kernel itself (facility 0). It skips lines of others and
// the rest of a line that was overwritten.
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

// Matching returns the lines of the kernel's whole log that match, each with the time since boot,
// oldest first, at most the last 4,000.
func Matching(match *regexp.Regexp) (lines []string, err error) {
	text, err := readSyslog()
	for line := range strings.Lines(text) {
		if _, message, ok := strings.Cut(line, ">"); ok && match.MatchString(message) {
			lines = append(lines, kernelText(message)...)
		}
	}
	return lines[max(0, len(lines)-10*maxKmsgLines):], err
}

// withoutTime removes "[ 1.234567] ", which stands there unless the kernel is configured otherwise,
// and the caller ("[ T1] ") that may follow in the same form.
func withoutTime(message string) string {
	for range 2 {
		stamp, rest, found := strings.Cut(message, "]")
		if !found || !strings.HasPrefix(stamp, "[") ||
			strings.Trim(stamp[1:], " .0123456789TC") != "" {
			break
		}
		message = strings.TrimPrefix(rest, " ")
	}
	return message
}
