package main

import (
	"io"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/goldentest"
)

// TestManPages makes the pages of a release: see goldentest.Man.
func TestManPages(t *testing.T) {
	t.Parallel()
	goldentest.Man(t, (&program{stdout: io.Discard, stderr: io.Discard}).command(t.Context()))
}
