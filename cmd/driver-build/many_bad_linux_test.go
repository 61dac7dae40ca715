package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/commandtest"
	"github.com/driver-container/driver-container/ci/imagetest"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/ci/tool"
)

// thousand is a user with a matrix of 10 systems by 100 drivers.
func thousand(t *testing.T) *user {
	t.Helper()
	return &user{commandtest.In(t, imagetest.NewFleet(t, imagetest.Fleet{Systems: 10, Drivers: 100, Files: 20}), newRootCmd)}
}

// damage replaces the end of every file that a pattern names.
func damage(t *testing.T, pattern string) (files int) {
	t.Helper()
	for _, path := range require.Value(filepath.Glob(pattern))(t) {
		data := require.Value(os.ReadFile(path))(t)
		files++
		require.NoError(t, os.WriteFile(path, append(data[:len(data)/2], "damaged"...), 0o600))
	}
	return files
}

// TestThousandTargetsBad: of 1,000 targets, those of four systems cannot be planned, each for another reason,
// and what the cache knows of the others is damaged. The others are planned as before, and each reason is
// said once, with the targets that it hits.
func TestThousandTargetsBad(t *testing.T) {
	t.Parallel()
	u := thousand(t)
	good := u.Run(t, "--all", "--dry-run", "--progress", "quiet")
	good.Want(t, 0)
	for _, kind := range []string{"plan", "base", "document"} {
		if damage(t, filepath.Join(u.Cache, "keys", kind+"-*")) == 0 {
			t.Errorf("nothing to damage of the kind %s", kind)
		}
	}
	u.Archives["ubuntu20.04"].Find("kmod", "amd64").Control = u.Archives["ubuntu20.04"].Find("make", "amd64").Control
	u.Archives["ubuntu20.04"].Publish()
	u.Fault(func(rw http.ResponseWriter, r *http.Request) bool {
		for part, code := range map[string]int{"/bionic/": 500, "/base/ubuntu16.04": 403, "/base/ubuntu26.04": 500} {
			if strings.Contains(r.URL.Path, part) {
				http.Error(rw, "closed", code)
				return true
			}
		}
		return false
	})
	causes := map[string]string{
		"packages of ubuntu20.04 amd64: cannot resolve packages: kmod was asked for":         "ubuntu20.04",
		"registry " + u.Host + ": the credentials for it do not allow to pull":               "ubuntu16.04",
		"registry " + u.Host + ": it answered 500 Internal Server Error":                     "ubuntu26.04",
		"server " + u.Host + " after 2 tries: the server answered 500 Internal Server Error": "ubuntu18.04",
	}
	before := u.Requests("")
	r := u.Run(t, "--all", "--dry-run", "--progress", "quiet")
	r.Want(t, 3, "400 of 1000 targets")
	asked := u.Requests("") - before
	for cause, system := range causes {
		targets := fmt.Sprintf(": 100 targets: 535.100.01-%s, 535.101.01-%s, 535.102.01-%s and 97 more", system, system, system)
		line := ""
		for l := range strings.Lines(r.Stderr) {
			if strings.HasPrefix(l, cause) && strings.HasSuffix(strings.TrimSpace(l), targets) {
				line = l
			}
		}
		if line == "" || strings.Count(r.Stderr, cause) != 1 {
			t.Errorf("%q is not said once for its targets:\n%s", cause, r.Stderr)
		}
	}
	if lines := strings.Count(r.Stderr, "\n"); lines > 8 {
		t.Errorf("%d lines say four causes:\n%s", lines, r.Stderr)
	}
	if asked > 60 { // five a system, and the second tries
		t.Errorf("%d requests for 10 systems", asked)
	}
	planned := map[string]bool{}
	for line := range strings.Lines(r.Stdout) {
		if tag, ok := strings.CutPrefix(strings.TrimSpace(line), `"tag": "`); ok {
			planned[tag] = true
		}
	}
	assert.Equalf(t, 600, len(planned), "targets that were planned")
	if whole := strings.Join(strings.Fields(good.Stdout), " "); !strings.Contains(whole, strings.Join(strings.Fields(r.Stdout[:strings.Index(r.Stdout, "\n}\n")]), " ")) {
		t.Error("the first recipe is another one than with a cache that was not damaged")
	}
	u.tool(t, "lock --lock "+u.Path("bad.lock")).Want(t, 4)
	assert.Errorf(t, assert.Err(os.Stat(u.Path("bad.lock"))), "a lock that lacks targets")
}

// TestThousandTargetsRows: mistakes in a matrix of 1,000 targets are all said once, each with its line,
// before anything is asked.
func TestThousandTargetsRows(t *testing.T) {
	t.Parallel()
	u := thousand(t)
	var want []string
	lines := strings.Split(strings.TrimSuffix(u.Matrix(), "\n"), "\n")
	for i, line := range lines {
		switch {
		case strings.Contains(line, "535.111.01") && strings.Contains(line, "version"):
			lines[i] = "  - version: 535.112.01" // a second one: the next row is the one that is refused
			want = append(want, fmt.Sprintf(":%d:14: driver \"535.112.01\" appears twice", i+1+3))
		case strings.Contains(line, "sha256") && i%7 == 0:
			lines[i] = strings.Replace(line, "sha256: ", "sha256: zz", 1)
			want = append(want, fmt.Sprintf(":%d:", i+1))
		case strings.Contains(line, "sha256") && i%11 == 0:
			lines[i] = strings.Replace(line, "size: ", "sise: ", 1)
			want = append(want, fmt.Sprintf(":%d:", i+1))
		}
	}
	lines = append(lines, "exclude:")
	for i := range 30 {
		lines = append(lines, fmt.Sprintf("  - {system: nosuch%d, driver: 535.100.01, reason: x}", i))
		want = append(want, fmt.Sprintf(":%d:14: system \"nosuch%d\" is no known system", len(lines), i))
	}
	require.NoError(t, os.WriteFile(u.Path("bad.yaml"), []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	before := u.Requests("")
	r := u.Run(t, "--all", "--dry-run", "--progress", "quiet", "--matrix", u.Path("bad.yaml"))
	r.Want(t, 2)
	for _, position := range want {
		if n := strings.Count(r.Stderr, "bad.yaml"+position); n != 1 {
			t.Errorf("%s is said %d times", position, n)
		}
	}
	if got := strings.Count(strings.TrimSpace(r.Stderr), "\n") + 1; got != len(want) || len(want) < 50 {
		t.Errorf("%d lines for %d mistakes:\n%s", got, len(want), r.Stderr)
	}
	assert.Equalf(t, 0, u.Requests("")-before, "requests")
	assert.Equalf(t, "", r.Stdout, "stdout")
}

// TestThousandTargetsMemory: a process that plans 1,000 targets stays small if some have no base, and if no
// system has the kernel.
func TestThousandTargetsMemory(t *testing.T) {
	t.Parallel()
	u := thousand(t)
	require.NoError(t, os.WriteFile(u.Path("matrix.yaml"), []byte(u.Matrix()), 0o600))
	u.Fault(refuse(http.StatusForbidden, "/base/ubuntu2"))
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"", 4, "400 targets: 535.100.01-ubuntu22.04"},
		{"--kernel 5.10.0-99-amd64", 2, "linux-headers-5.10.0-99-amd64 was asked for, which no repository has"},
	} {
		args := append([]string{"lock", "--progress", "quiet", "--cache", u.Cache}, strings.Fields(c.args)...)
		cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
		cmd.Dir, cmd.Env = u.Dir, append(os.Environ(), asProgram+"=1", "GOCOVERDIR="+t.TempDir(), "GOMAXPROCS=2") // memory grows with them
		var stderr tool.Buffer
		cmd.Stderr = &stderr
		require.NoError(t, cmd.Start())
		peak := make(chan int)
		go func() { peak <- highest(cmd.Process.Pid) }()
		assert.Errorf(t, cmd.Wait(), "%q", c.args)
		assert.Equalf(t, c.code, cmd.ProcessState.ExitCode(), "exit code of %q: %s", c.args, stderr.String())
		assert.Containsf(t, stderr.String(), c.says, "%q", c.args)
		if lines := strings.Count(stderr.String(), "\n"); lines > 12 {
			t.Errorf("%q: %d lines:\n%s", c.args, lines, stderr.String())
		}
		if kib := <-peak; kib == 0 || kib > 200<<10 {
			t.Errorf("%q: peak memory of %d KiB", c.args, kib)
		}
	}
}

// highest looks at a process until it ends, and returns its peak memory in KiB. Its resource usage would have
// that of this process, which it was before it began.
func highest(pid int) (kib int) {
	for {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		_, value, found := strings.Cut(string(raw), "VmHWM:")
		if err != nil || !found { // a process that has ended has no memory
			return kib
		}
		fmt.Sscan(value, &kib) //nolint:errcheck // then it is 0
		time.Sleep(3 * time.Millisecond)
	}
}
