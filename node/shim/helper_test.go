package shim

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/cli"
)

// The test binary has three roles: the tests, the shim (when this variable is set), and the worker that the
// shim starts.
const play = "SHIM_TEST_PLAY"

func TestMain(m *testing.M) {
	if os.Getenv(play) == "" {
		goleak.VerifyTestMain(m)
		return
	}
	if IsWorker() {
		os.Exit(worker(os.Args[1:]))
	}
	o := Options{Grace: 300 * time.Millisecond, Log: cli.Log(os.Stderr, "text")}
	if exe, found := os.LookupEnv("SHIM_TEST_EXE"); found {
		o.Exe = exe
	}
	os.Exit(Run(os.Args, o))
}

// worker does what its first argument names.
func worker(args []string) int {
	switch args[0] {
	case "exit":
		n, _ := strconv.Atoi(args[1])
		return n
	case "die":
		n, _ := strconv.Atoi(args[1])
		_ = unix.Kill(os.Getpid(), syscall.Signal(n))
		time.Sleep(5 * time.Second)
	case "signals": // prints the signals that it gets until SIGTERM
		return printSignals()
	case "environment":
		_, marked := os.LookupEnv(Marker)
		sid, _ := unix.Getsid(0)
		comm, _ := os.ReadFile("/proc/self/comm")
		fmt.Println(marked, strings.TrimSpace(string(comm)), sid == os.Getpid())
	case "children": // os/exec must not lose a child to the shim
		for range 40 {
			if err := exec.Command("true").Run(); err != nil {
				fmt.Println(err)
				return 1
			}
		}
	case "orphans": // a shell leaves its child to the shim; no zombie may stay below the shim
		_ = exec.Command("sh", "-c", "sleep 0.05 & sleep 0.05 & exit 0").Run()
		for end := time.Now().Add(time.Minute); children() > 0 && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
		return children()
	case "leave": // leaves processes in other sessions; the last argument says whether they handle SIGTERM
		script := `trap "` + args[1] + `" TERM; echo $$; while :; do sleep 0.02; done`
		cmd := exec.Command("setsid", "sh", "-c", script)
		pipe, _ := cmd.StdoutPipe()
		_ = cmd.Start()
		line, _ := bufio.NewReader(pipe).ReadString('\n')
		fmt.Println(strings.TrimSpace(line))
	case "deaf": // has not come to handle signals yet
		fmt.Println("ready")
		time.Sleep(time.Minute)
	}
	return 0
}

func printSignals() int {
	c := make(chan os.Signal, 64)
	signal.Notify(c, forwarded()...)
	fmt.Println("ready", os.Getpid())
	for s := range c {
		fmt.Println(int(s.(syscall.Signal)))
		if s == unix.SIGTERM {
			return 0
		}
	}
	return 1
}

// children returns how many children the shim has beside this process, dead or alive.
func children() (n int) {
	entries, _ := os.ReadDir("/proc") // it lists processes; the names of threads open, too
	for _, e := range entries {
		pid, _ := strconv.Atoi(e.Name())
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil || pid == 0 || pid == os.Getpid() {
			continue
		}
		if st, ok := kmod.ParseStat(stat); ok && st.Parent == os.Getppid() {
			n++
		}
	}
	return n
}

// shim starts this binary as the shim.
func shim(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	// Without GORACE each process would end one second later under -race.
	cmd.Env = append(os.Environ(), play+"=1", "GORACE=atexit_sleep_ms=0")
	cmd.WaitDelay = 30 * time.Second
	return cmd
}

func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	st, ok := kmod.ParseStat(stat)
	return ok && !st.Dead
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if f() {
			return
		}
	}
	t.Errorf("not within a minute: %s", what)
}
