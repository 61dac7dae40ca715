package daemons

import (
	"context"
	"time"
)

// Sleep waits, and returns false if ctx ended first.
func Sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// Until calls f, with pauses, until f returns nil or ctx ends, and returns the last error of f.
func Until(ctx context.Context, pause time.Duration, f func() error) error {
	for {
		if err := f(); err == nil || !Sleep(ctx, pause) {
			return err
		}
	}
}
