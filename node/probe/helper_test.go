package probe

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// The test binary plays driver-probe (no arguments, or --usage) and nvidia-smi (with the arguments of the
// query).
const (
	playNVML  = "PROBE_TEST_NVML"
	playSMI   = "PROBE_TEST_SMI"
	playUsage = "PROBE_TEST_USAGE" // if set, both programs print this when they are asked for memory and utilisation
)

func TestMain(m *testing.M) {
	script, found := os.LookupEnv(playNVML)
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "--query-gpu=") {
		script = os.Getenv(playSMI)
	}
	if usage, set := os.LookupEnv(playUsage); set && len(os.Args) > 1 && (os.Args[1] == "--usage" || strings.Contains(os.Args[1], "memory.used")) {
		script = usage
	}
	if !found {
		goleak.VerifyTestMain(m)
		return
	}
	os.Exit(fake(script))
}

// fake follows the script: "CODE text" prints the text and exits with the code, the other scripts misbehave.
func fake(script string) int {
	what, text, _ := strings.Cut(script, " ")
	switch what {
	case "hang": // with a child of its own in the same group
		signal.Ignore(unix.SIGTERM)
		_ = exec.Command("sleep", text).Start()
		fmt.Println("{")
		time.Sleep(time.Minute)
	case "daemon": // answers, and leaves a process that keeps the output open
		cmd := exec.Command("sleep", "3.5")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		_ = cmd.Start()
		fmt.Println(text)
		return 0
	case "flood":
		w := bufio.NewWriter(os.Stdout)
		for range 3 << 20 {
			_ = w.WriteByte('x')
		}
		return 0
	case "unkillable":
		unkillable(text)
	case "trace":
		return trace()
	case "crash":
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		time.Sleep(time.Minute)
	}
	code, err := strconv.Atoi(what)
	if err != nil {
		return 99
	}
	if strings.HasPrefix(text, "!") {
		fmt.Fprintln(os.Stderr, text[1:])
	} else {
		fmt.Println(text)
	}
	return code
}

// unkillable makes this process one that its parent cannot kill, like one that hangs in the kernel: a tracer
// has seized it, and the kernel tells the parent of its end only when the tracer detaches, which is when the
// file is removed.
func unkillable(file string) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), playNVML+"=trace", "TRACEE="+strconv.Itoa(os.Getpid()), "TRACE_FILE="+file)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	_ = cmd.Start()
	time.Sleep(time.Minute)
}

// trace seizes the process TRACEE and keeps it until TRACE_FILE is removed.
func trace() int {
	runtime.LockOSThread()
	pid, _ := strconv.Atoi(os.Getenv("TRACEE"))
	if _, _, e := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, 0, 0, 0); e != 0 {
		return 1
	}
	file := os.Getenv("TRACE_FILE")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return 1
	}
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(file); err != nil {
			return 0
		}
	}
	return 1
}

func options(nvml, smi string) Options {
	return Options{
		Probe: os.Args[0], SMI: os.Args[0], Timeout: 2 * time.Minute,
		Env: append(os.Environ(), "GORACE=atexit_sleep_ms=0", playNVML+"="+nvml, playSMI+"="+smi),
	}
}

func running(t *testing.T, pattern string) bool {
	t.Helper()
	return exec.Command("pgrep", "-f", pattern).Run() == nil
}

// stays reports whether processes still run a while after they were killed: on a busy machine a killed
// process ends when it gets a processor.
func stays(t *testing.T, pattern string) bool {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if !running(t, pattern) {
			return false
		}
	}
	return true
}
