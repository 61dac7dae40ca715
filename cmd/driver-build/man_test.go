package main

import (
	"io"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
)

// TestManPages makes the pages of a release: see goldentest.Man.
func TestManPages(t *testing.T) {
	t.Parallel()
	goldentest.Man(t, newRootCmd(&session.App{Stdout: io.Discard, Stderr: io.Discard, Getenv: func(string) string { return "" }}))
}
