package lab

import (
	"bytes"
	"strings"
	"testing"
)

func TestRenameUTS(t *testing.T) {
	t.Parallel()
	const from, to = "6.1.0-56-amd64", "6.1.0-56.el9_4.x86_64"
	field := func(s string) string { return s + strings.Repeat("\x00", utsField-len(s)) }
	names := func(release string) string { return field("Linux") + field("(none)") + field(release) + "#1 SMP" }
	banner := "Linux version " + from + " (gcc) " // unchanged: no program reads it
	got := renameUTS(t, []byte(banner+names(from)+"data"), from, to)
	if want := banner + names(to) + "data"; !bytes.Equal(got, []byte(want)) {
		t.Errorf("got %q, want %q", got, want)
	}
}
