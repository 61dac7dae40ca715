package shim

import (
	"bufio"
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

func TestExitCode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"exit", "0"}, 0},
		{[]string{"exit", "10"}, 10},
		{[]string{"exit", "255"}, 255},
		{[]string{"die", "9"}, 137},
		{[]string{"die", "15"}, 143},
		{[]string{"children"}, 0},
		{[]string{"orphans"}, 0}, // so many zombies are left
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			t.Parallel()
			cmd := shim(t, c.args...)
			out, _ := cmd.CombinedOutput()
			assert.Equalf(t, c.want, cmd.ProcessState.ExitCode(), "%s", out)
		})
	}
}

// A signal to stop that comes before the worker handles signals ends the container with 0, as one that comes later.
func TestEarlySignal(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{unix.SIGTERM, unix.SIGINT} {
		cmd := shim(t, "deaf")
		out := require.Value(cmd.StdoutPipe())(t)
		require.NoError(t, cmd.Start())
		_, _ = out.Read(make([]byte, 1))
		require.NoError(t, cmd.Process.Signal(s))
		_ = cmd.Wait()
		assert.Equalf(t, 0, cmd.ProcessState.ExitCode(), "%v", s)
	}
}

func TestWorkerCannotStart(t *testing.T) {
	t.Parallel()
	cmd := shim(t, "exit", "0")
	cmd.Env = append(cmd.Env, "SHIM_TEST_EXE=/nonexistent")
	out, _ := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != 1 || !strings.Contains(string(out), "error: cannot start the worker, nothing was done path=/nonexistent: no such file") {
		t.Errorf("got %d, %q", got, out)
	}
	assert.Equalf(t, 1, Run(nil, Options{Log: slog.New(slog.DiscardHandler)}), "no arguments")
}

// The worker must not see the marker, and a marker of another process does not make a worker.
func TestMarker(t *testing.T) {
	t.Parallel()
	for _, leaked := range []string{"", Marker + "=1", Marker + "=x", Marker + "="} {
		cmd := shim(t, "environment")
		if leaked != "" {
			cmd.Env = append(cmd.Env, leaked)
		}
		out, err := cmd.Output()
		if got := strings.TrimSpace(string(out)); got != "false shim.test true" || err != nil {
			t.Errorf("%q: got %q, %v", leaked, got, err)
		}
	}
}

func TestSignals(t *testing.T) {
	t.Parallel()
	cmd := shim(t, "signals")
	pipe := require.Value(cmd.StdoutPipe())(t)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(pipe)
	lines.Scan()
	for _, s := range []int{1, 2, 3, 10, 12, 14, 18, 20, 28, 40, 64, 15} {
		require.NoError(t, cmd.Process.Signal(syscall.Signal(s)))
		if !lines.Scan() || lines.Text() != strconv.Itoa(s) {
			t.Fatalf("signal %d: worker got %q", s, lines.Text())
		}
	}
	assert.NoError(t, cmd.Wait())
}

// What the worker leaves behind ends with it, even in a session of its own; processes that do not belong to
// the shim stay.
func TestRemains(t *testing.T) {
	t.Parallel()
	foreign := exec.CommandContext(t.Context(), "sleep", "60")
	require.NoError(t, foreign.Start())
	defer func() { _ = foreign.Process.Kill(); _ = foreign.Wait() }()
	for _, trap := range []string{"exit", ""} { // "" ignores SIGTERM
		var out bytes.Buffer
		cmd := shim(t, "leave", trap)
		cmd.Stdout = &out
		began := time.Now()
		assert.NoErrorf(t, cmd.Run(), "trap %q", trap)
		pid, err := strconv.Atoi(strings.TrimSpace(out.String()))
		assert.NoErrorf(t, err, "trap %q", trap)
		assert.Equalf(t, false, alive(pid), "trap %q: process %s is alive", trap, out.String())
		assert.Equalf(t, true, time.Since(began) < 30*time.Second, "trap %q: it ends at once", trap)
	}
	assert.Equalf(t, true, alive(foreign.Process.Pid), "a foreign process was ended")
}

// When the shim is killed, the worker gets SIGTERM.
func TestShimKilled(t *testing.T) {
	t.Parallel()
	cmd := shim(t, "signals")
	pipe := require.Value(cmd.StdoutPipe())(t)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(pipe)
	lines.Scan()
	var pid int
	require.Value(fmt.Sscanf(lines.Text(), "ready %d", &pid))(t)
	time.Sleep(50 * time.Millisecond) // the thread that started the worker must not be a short-lived one
	if !alive(pid) {
		t.Fatal("the worker ended on its own")
	}
	require.NoError(t, cmd.Process.Kill())
	if !lines.Scan() || lines.Text() != "15" {
		t.Errorf("worker got %q", lines.Text())
	}
	_ = cmd.Wait()
	eventually(t, "the worker ends", func() bool { return !alive(pid) })
}

// The shim as process 1 of a pid namespace, as in a container without hostPID.
func TestProcessOne(t *testing.T) {
	t.Parallel()
	tool.AsRoot(t, "for pid namespaces")
	for _, c := range []struct {
		args []string
		want string
	}{{[]string{"orphans"}, ""}, {[]string{"leave", ""}, ""}, {[]string{"environment"}, "false shim.test true"}} {
		cmd := exec.CommandContext(t.Context(), "unshare", append([]string{"-p", "-m", "--mount-proc", "--fork", os.Args[0]}, c.args...)...)
		cmd.Env = append(os.Environ(), play+"=1", "GORACE=atexit_sleep_ms=0")
		out, err := cmd.CombinedOutput()
		if err != nil || c.want != "" && strings.TrimSpace(string(out)) != c.want {
			t.Errorf("%v: %s, %v", c.args, out, err)
		}
	}
}

// Pages that the file has leave the memory of the process and come back; pages that were changed in memory
// stay, also where the mapping is not writable any more.
func TestFreeMemory(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(name, []byte(strings.Repeat("a", os.Getpagesize())), 0o600))
	file := require.Value(os.Open(name))(t)
	defer file.Close()
	mapped := func(rights int) []byte {
		data := require.Value(unix.Mmap(int(file.Fd()), 0, os.Getpagesize(), rights, unix.MAP_PRIVATE))(t)
		t.Cleanup(func() { _ = unix.Munmap(data) })
		return data
	}
	clean, changed, writable := mapped(unix.PROT_READ), mapped(unix.PROT_READ|unix.PROT_WRITE), mapped(unix.PROT_READ|unix.PROT_WRITE)
	changed[0], writable[0] = 'b', 'c'
	require.NoError(t, unix.Mprotect(changed, unix.PROT_READ))
	assert.Equal(t, "a b c", fmt.Sprintf("%c %c %c", clean[0], changed[0], writable[0]))
	if resident(t, clean) == "0" {
		t.Fatal("the page that was read is not resident")
	}
	FreeMemory()
	assert.Equal(t, "0", resident(t, clean))
	assert.Equal(t, "a b c", fmt.Sprintf("%c %c %c", clean[0], changed[0], writable[0]))
	dropFilePages("/nonexistent")
}

// resident returns how many KB of a mapping are in the memory of this process.
func resident(t *testing.T, mapping []byte) string {
	t.Helper()
	table := string(require.Value(os.ReadFile("/proc/self/smaps"))(t))
	_, lines, _ := strings.Cut("\n"+table, fmt.Sprintf("\n%x-", uintptr(unsafe.Pointer(&mapping[0]))))
	_, rest, found := strings.Cut(lines, "\nRss:")
	if !found {
		t.Fatalf("no mapping at %p in\n%s", mapping, table)
	}
	return strings.Fields(rest)[0]
}
