package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/makeself"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

// TestHome: without a usable HOME, commands that need no cache work, and the others say what to give.
func TestHome(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.file(t, "matrix.yaml", u.Matrix())
	for name, tc := range map[string]struct {
		env  []string
		says string
	}{
		"none":      {nil, "no place for the cache: "},
		"read-only": {[]string{"HOME=/proc"}, "/proc/.cache/driver-build"},
		"relative":  {[]string{"HOME=here"}, "is not absolute"},
	} {
		for args, code := range map[string]int{"list": 0, "version": 0, "kernels --os debian12": 2, "drivers --offline": 2} {
			var stdout, stderr strings.Builder
			cmd := exec.CommandContext(t.Context(), require.Value(os.Executable())(t), strings.Fields(args)...)
			cmd.Env = append([]string{asProgram + "=1"}, tc.env...)
			cmd.Dir, cmd.Stdout, cmd.Stderr = u.Dir, &stdout, &stderr
			_ = cmd.Run() // the exit code is below
			if got := cmd.ProcessState.ExitCode(); got != code || code == 2 && (!strings.Contains(stderr.String(), tc.says) || stdout.Len() > 0) {
				t.Errorf("HOME %s, %s: exit code %d\n%s%s", name, args, got, &stdout, &stderr)
			}
		}
	}
	assert.Equalf(t, "matrix.yaml", strings.Join(testfile.List(t, u.Dir), " "), "a folder was made")
}

func TestMemoryLimits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		data, space uint64
		says        string
	}{
		{512 << 20, 2 << 30, ""},
		{512<<20 - 1, ^uint64(0), "511 MiB of memory (ulimit -d), but needs up to 512 MiB: raise the limit with ulimit -d 524288"},
		{^uint64(0), 1 << 30, "1024 MiB of memory (ulimit -v)"},
	} {
		err := checkMemory(func(resource int, l *syscall.Rlimit) error {
			l.Cur = map[int]uint64{syscall.RLIMIT_DATA: c.data, syscall.RLIMIT_AS: c.space}[resource]
			return nil
		})
		assert.Equalf(t, c.says == "", err == nil, "data %d, address space %d: %v", c.data, c.space, err)
		assert.Containsf(t, fmt.Sprint(err), c.says, "data %d, address space %d", c.data, c.space)
	}
}

// TestXZ: the machine's xz program unpacks the driver, and without one Go does.
func TestXZ(t *testing.T) { // not parallel: it sets PATH
	u := newUser(t)
	var firmware strings.Builder // large enough for the program
	for n := range 100_000 {
		fmt.Fprintln(&firmware, n*n)
	}
	files := append(imagetest.DriverFiles(newDriver, "amd64"), repotest.File{
		Name: "usr/share/nvidia-driver/firmware/nvidia/" + newDriver + "/gsp_tu10x.bin", Body: firmware.String(),
	})
	u.PutRun(newDriver, "amd64", imagetest.Run(t, newDriver, "amd64", files, func(a *makeself.Archive) { a.Compression = "xz" }))
	u.file(t, "bin/xz", "#!/bin/sh\nexit 1\n")
	t.Setenv("PATH", u.Path("bin"))
	target := []string{"--os", "ubuntu18.04", "--driver", newDriver, "--output", "oci:" + u.Path("dist")}
	u.Run(t, target...).Want(t, 5, u.Path("bin/xz"), "repair the program or remove it from PATH")
	require.NoError(t, os.Remove(u.Path("bin/xz")))
	u.Run(t, target...).Want(t, 0)
}

var (
	escape = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`)
	colour = regexp.MustCompile(`\x1b\[[0-9;]*3[0-9]m`)
)

// TestResultsOnTerminal: the display of progress does not write over results, whatever the terminal is like.
func TestResultsOnTerminal(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	matrix := u.file(t, "own.yaml", u.Matrix())
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
