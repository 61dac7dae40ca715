package main

import (
	"io"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/mantest"
)

// TestManPages makes the pages of a release: see package mantest.
func TestManPages(t *testing.T) {
	t.Parallel()
	mantest.Check(t, (&program{stdout: io.Discard, stderr: io.Discard}).command(t.Context()))
}
