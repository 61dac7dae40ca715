//go:build !linux

package kmsg

import (
	"errors"
	"fmt"
)

// readSyslog fails: only Linux has such a log. driver-build links this package and never calls it
// there.
func readSyslog() (string, error) {
	return "", fmt.Errorf("read the kernel's log: %w: it needs Linux", errors.ErrUnsupported)
}
