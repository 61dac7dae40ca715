package kmsg

import (
	"fmt"

	"golang.org/x/sys/unix"
)

const (
	syslogReadAll = 3  // SYSLOG_ACTION_READ_ALL
	syslogSize    = 10 // SYSLOG_ACTION_SIZE_BUFFER
)

// readSyslog returns the kernel's log, each line as "<6>[    1.234567] text".
func readSyslog() (string, error) {
	size, err := unix.Klogctl(syslogSize, nil)
	if err != nil {
		return "", fmt.Errorf("ask for the size of the kernel's log: %w; it needs CAP_SYSLOG", err)
	}
	// The text of a full buffer is longer than the buffer, because each line gets a prefix.
	b := make([]byte, min(max(4*size, 1<<16), maxSyslog))
	n, err := unix.Klogctl(syslogReadAll, b)
	if err != nil {
		return "", fmt.Errorf("read the kernel's log: %w; it needs CAP_SYSLOG", err)
	}
	return string(b[:n]), nil
}
