package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

var (
	escape = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`)
	colour = regexp.MustCompile(`\x1b\[[0-9;]*3[0-9]m`)
)

// TestResultsOnTerminal: the display of progress does not write over results, whatever the terminal is like.
func TestResultsOnTerminal(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	matrix := u.Path("own.yaml")
	require.NoError(t, os.WriteFile(matrix, []byte(u.Matrix()), 0o600))
	fetch := func(columns uint16, env ...string) string {
		t.Helper()
		master, terminal := openTerminal(t, columns)
		cmd := exec.CommandContext(t.Context(), require.Value(os.Executable())(t),
			"fetch", "--only", "base", "--os", "ubuntu16.04", "--driver", oldDriver, "--matrix", matrix, "--cache", t.TempDir())
		cmd.Env = append(append(os.Environ(), asProgram+"=1", "TERM=xterm", "HOME="+u.Dir), env...)
		cmd.Stdout, cmd.Stderr, cmd.WaitDelay = terminal, terminal, 30*time.Second
		require.NoError(t, cmd.Start())
		require.NoError(t, terminal.Close())
		shown, _ := io.ReadAll(master) // ends with an error when the last process closes the terminal
		require.NoErrorf(t, cmd.Wait(), "%s", shown)
		return string(shown)
	}
	for name, tc := range map[string]struct {
		columns uint16
		env     []string
		redraws bool
		colours bool
	}{
		"usual":      {100, nil, true, true},
		"40 columns": {40, nil, true, true},
		"no colours": {100, []string{"NO_COLOR=1"}, true, false},
		"dumb":       {100, []string{"TERM=dumb"}, false, false},
	} {
		text := fetch(tc.columns, tc.env...)
		assert.Equalf(t, tc.redraws, escape.MatchString(text), "%s: it is redrawn: %q", name, text)
		assert.Equalf(t, tc.colours, colour.MatchString(text), "%s: it has colours: %q", name, text)
		before, after, found := strings.Cut(text, "sha256:")
		if lines := strings.Split(text, "\n"); !found || escape.MatchString(after) || !strings.HasSuffix(text, u.Host+"/base/ubuntu16.04:test\r\n") {
			t.Errorf("%s: the result is not the last: %q", name, lines[max(0, len(lines)-5):])
		}
		if tc.columns == 100 && tc.redraws && !strings.Contains(before, ":test: 2/2 files 2.0kB") {
			t.Errorf("%s: what was pulled is not in the line: %q", name, before)
		}
		for line := range strings.SplitSeq(before, "\n") {
			shown := strings.TrimRight(escape.ReplaceAllString(line, ""), "\r")
			if n := utf8.RuneCountInString(shown); tc.redraws && n > int(tc.columns) {
				t.Errorf("%s: a line has %d columns: %q", name, n, shown)
			}
		}
	}
}

func openTerminal(t *testing.T, columns uint16) (master, terminal *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminals here: ", err)
	}
	t.Cleanup(func() { _ = master.Close() })
	fd := int(master.Fd())
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n := require.Value(unix.IoctlGetInt(fd, unix.TIOCGPTN))(t)
	require.NoError(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: columns}))
	return master, require.Value(os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0))(t)
}
