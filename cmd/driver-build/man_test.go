package main

import (
	"io"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/mantest"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
)

// TestManPages makes the pages of a release: see package mantest.
func TestManPages(t *testing.T) {
	t.Parallel()
	mantest.Check(t, newRootCmd(&session.App{Stdout: io.Discard, Stderr: io.Discard, Getenv: func(string) string { return "" }}))
}
