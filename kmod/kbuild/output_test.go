package kbuild

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
)

func TestOutputErrors(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	o := &output{log: &log}
	text := strings.Join([]string{
		" CONFTEST: error",
		"nvidia/nv.c:3:1: warning: an error code is unused",
		"/w/nvidia/nv.c:7:10: fatal error: stdarg.h: No such file or directory",
		"compilation terminated.",
		"make[2]: *** [scripts/Makefile.build:250: nv.o] Error 1",
		"make[2]: *** Waiting for unfinished jobs....",
		"ERROR: modpost: GPL-incompatible module nvidia.ko uses GPL-only symbol 'rcu_read_lock'",
		"make: *** No rule to make target 'x'.  Stop.",
		strings.Repeat("x", 3*maxLine),
		"no end",
	}, "\n")
	for chunk := range slices.Chunk([]byte(text), 7) { // lines arrive in pieces
		if n, err := o.Write(chunk); n != len(chunk) || err != nil {
			t.Fatal(n, err)
		}
	}
	o.close()
	want := []string{
		"/w/nvidia/nv.c:7:10: fatal error: stdarg.h: No such file or directory",
		"ERROR: modpost: GPL-incompatible module nvidia.ko uses GPL-only symbol 'rcu_read_lock'",
		"make: *** No rule to make target 'x'.  Stop.",
	}
	if !slices.Equal(o.errors, want) {
		t.Errorf("errors %q", o.errors)
	}
	assert.Equalf(t, text, log.String(), "the log differs from the output")
	if len(o.tail) != 10 || o.tail[9] != "no end" || len(o.tail[8]) != maxLine {
		t.Errorf("tail of %d lines: %q", len(o.tail), o.tail)
	}
	assert.Equalf(t, 1, o.done, "steps")
}
