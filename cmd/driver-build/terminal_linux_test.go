package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
)

// TestResultsOnTerminal: the display of progress does not write over results.
func TestResultsOnTerminal(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	matrix := u.Path("own.yaml")
	require.NoError(t, os.WriteFile(matrix, []byte(u.Matrix()), 0o600))
	master, terminal := openTerminal(t)
	cmd := exec.CommandContext(t.Context(), require.Value(os.Executable())(t),
		"fetch", "--only", "base", "--os", "ubuntu16.04", "--driver", oldDriver, "--matrix", matrix, "--cache", u.Cache)
	cmd.Env = append(os.Environ(), asProgram+"=1", "TERM=xterm", "HOME="+u.Dir)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = terminal, terminal, time.Second
	require.NoError(t, cmd.Start())
	require.NoError(t, terminal.Close())
	shown, _ := io.ReadAll(master) // ends with an error when the last process closes the terminal
	require.NoErrorf(t, cmd.Wait(), "%s", shown)
	text := string(shown)
	assert.Contains(t, text, "\x1b[") // it is a display
	_, after, found := strings.Cut(text, u.Host+"/base/ubuntu16.04:test\r\n")
	if lines := strings.Split(text, "\n"); !found || strings.Contains(after, "\x1b[") {
		t.Errorf("the result is not the last: %q", lines[max(0, len(lines)-5):])
	}
}

func openTerminal(t *testing.T) (master, terminal *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminals here: ", err)
	}
	t.Cleanup(func() { _ = master.Close() })
	fd := int(master.Fd())
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n := require.Value(unix.IoctlGetInt(fd, unix.TIOCGPTN))(t)
	require.NoError(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 100}))
	return master, require.Value(os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0))(t)
}
