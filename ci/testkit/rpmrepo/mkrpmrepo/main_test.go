package main

import (
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
)

func TestArguments(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"--system", "beos5"}, {"--system", "rocky9", "--kernel", "6.1.0-56-amd64"}, {"--what"}, {"--system", "rocky9", "more"}} {
		var out strings.Builder
		assert.Errorf(t, run(t.Context(), args, &out, &out), "%v succeeded", args)
	}
}
