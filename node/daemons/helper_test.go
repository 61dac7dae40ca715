package daemons

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// The test binary plays the daemons: its first argument names one.
const play = "DAEMONS_TEST_PLAY"

func TestMain(m *testing.M) {
	if os.Getenv(play) == "" {
		goleak.VerifyTestMain(m)
		return
	}
	os.Exit(fake(os.Args[1:]))
}

// fake: what PIDFILE... is one of
//
//	run        in the foreground until SIGTERM        deaf     makes the file $DEAF, only SIGKILL helps
//	fail       prints and exits 3                     short    lives 60 ms
//	fork       starts "daemon" for each pid file      badfork  the same, exits 1
//	late       fork, whose pid file comes late        stuck    starts a daemon and does not end
//	daemon     writes the pid file, serves a socket   deafdaemon
func fake(args []string) int {
	what, files := args[0], args[1:]
	term := make(chan os.Signal, 1)
	signal.Notify(term, unix.SIGTERM)
	switch what {
	case "run":
		fmt.Println("hello")
		<-term
	case "deaf":
		_ = os.WriteFile(os.Getenv("DEAF"), nil, 0o600)
		time.Sleep(time.Minute)
	case "short":
		fmt.Println("about to crash")
		time.Sleep(60 * time.Millisecond)
		return 7
	case "fail":
		for i := range 30 {
			fmt.Println("line", i)
		}
		fmt.Fprintln(os.Stderr, "no such device")
		return 3
	case "fork", "late", "badfork", "stuck":
		return fork(what, files)
	case "daemon", "deafdaemon":
		return daemonize(what, files[0], term)
	}
	return 0
}

func fork(what string, files []string) int {
	for _, file := range files {
		kind := "daemon"
		if what == "stuck" {
			kind = "deafdaemon"
		}
		cmd := exec.Command(os.Args[0], kind, file)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		cmd.Stdout = os.Stdout
		if what == "late" {
			cmd.Env = append(os.Environ(), "LATE=1")
		}
		_ = cmd.Start()
		for end := time.Now().Add(time.Minute); what != "late" && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			if b, err := os.ReadFile(file); err == nil && len(b) > 0 {
				break
			}
		}
	}
	switch what {
	case "badfork":
		fmt.Println("fabric is broken")
		return 1
	case "stuck":
		time.Sleep(time.Minute)
	}
	return 0
}

func daemonize(what, file string, term <-chan os.Signal) int {
	if os.Getenv("LATE") != "" {
		time.Sleep(200 * time.Millisecond)
	}
	if socket := os.Getenv("SOCKET"); socket != "" {
		_ = os.Remove(socket)
		l, err := net.Listen("unix", socket)
		if err != nil {
			return 1
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_ = c.Close()
			}
		}()
	}
	_ = os.WriteFile(file+".new", []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644)
	_ = os.Rename(file+".new", file)
	if what == "deafdaemon" {
		time.Sleep(time.Minute)
	}
	<-term
	_ = os.Remove(file)
	return 0
}

var quickly = timing{first: 20 * time.Millisecond, longest: 200 * time.Millisecond, stable: time.Minute, running: 30 * time.Millisecond, poll: 10 * time.Millisecond}

func spec(name, what string, files ...string) Spec {
	s := Spec{
		Name: name, Path: os.Args[0], Args: append([]string{what}, files...), Env: append(os.Environ(), play+"=1", "GORACE=atexit_sleep_ms=0"),
		StartWait: time.Minute, StopWait: time.Minute, Required: true,
	}
	if len(files) > 0 {
		s.PIDFile = files[0]
	}
	return s
}

func started(t *testing.T, l *logtest.Log, tm timing, specs ...Spec) *Supervisor {
	t.Helper()
	s := require.Value(start(t.Context(), l.Logger(), tm, specs))(t)
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
	return s
}

func alive(pid int) bool {
	st, ok := stat(pid)
	return ok && !st.Dead
}

// eventually reads Changed, as the program does, until f accepts the states.
func eventually(t *testing.T, s *Supervisor, what string, f func([]State) bool) []State {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		if states := s.States(); f(states) {
			return states
		}
		select {
		case <-s.Changed():
		case <-timeout:
			t.Fatalf("never: %s; states %+v", what, s.States())
		}
	}
}

func pidOf(t *testing.T, file string) int {
	t.Helper()
	return require.Value(readPID(file))(t)
}

func in(t *testing.T, names ...string) []string {
	t.Helper()
	dir := t.TempDir()
	for i, n := range names {
		names[i] = filepath.Join(dir, n)
	}
	return names
}
