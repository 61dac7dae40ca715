package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// Options say what to examine.
type Options struct {
	Consumer string // a small system with the programs, which Prepare made
	Root     string // the driver root
	Version  string // the driver version that the root should have
}

const (
	limit   = 5 * time.Minute              // of one examination, which takes two seconds
	options = "DRIVER_CONFORMANCE_OPTIONS" // has the Options of the process that examines, as JSON
)

// Run lets the programs of a consumer examine a driver root, in a process with mount and pid
// namespaces of its own, so that the rest of the machine does not see what they do to /dev, /run or
// any mount. An error means that they could not be run; problems are in the report.
func Run(ctx context.Context, o Options) (r Report, err error) {
	text, err := json.Marshal(o)
	if err != nil {
		return r, err
	}
	runtime.LockOSThread() // the kernel sends the signal when this thread ends
	defer runtime.UnlockOSThread()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Env = append(os.Environ(), options+"="+string(text))
	cmd.Stdout = &stdout
	cmd.Stderr = &stderr
	cmd.WaitDelay = 10 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL,
	}
	err = cmd.Run()
	if err != nil {
		said := bytes.TrimSpace(stderr.Bytes())
		return r, fmt.Errorf("examine driver root %s: %w: %s", o.Root, err, said)
	}
	return r, json.Unmarshal(stdout.Bytes(), &r)
}

// Examine is for TestMain. In the process that Run starts it prints the report and ends the
// process; otherwise it does nothing.
func Examine() {
	if os.Getenv(options) == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	err := examine(ctx, os.Getenv(options), json.NewEncoder(os.Stdout))
	cancel()
	status := 0
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status) //nolint:forbidigo // the process is not a test's any more
}

// examine enters the world and runs every program.
func examine(ctx context.Context, text string, out *json.Encoder) error {
	var o Options
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	if err := world(o.Consumer, o.Root); err != nil {
		return fmt.Errorf("prepare a private world for the consumers of %s: %w", o.Root, err)
	}
	r := Report{Root: o.Root, Version: o.Version, DevRoot: "/"}
	// Validator, device plugin and DRA driver share this rule.
	if info, err := os.Stat(filepath.Join(driverRoot, "dev")); err == nil && info.IsDir() {
		r.DevRoot = driverRoot
	}
	s := session{&r}
	s.validator(ctx)
	s.prestart(ctx)
	s.administrator(ctx)
	s.specifications(ctx)
	return out.Encode(r)
}

// session is one examination of one root.
type session struct{ *Report }

// start runs a program with the environment of a root shell, and more variables.
func (s session) start(
	ctx context.Context,
	name string,
	env []string,
	command ...string,
) (c Client, stdout, stderr []byte) {
	c = Client{Name: name}
	var out, log bytes.Buffer
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}, env...)
	cmd.Stdout = &out
	cmd.Stderr = &log
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	c.Code = cmd.ProcessState.ExitCode() // -1 for nil: it never started
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		c.Code = -1
		c.problem("%v", err)
	}
	return c, out.Bytes(), log.Bytes()
}

// end records a client, with the end of its output when it has problems.
func (s session) end(c Client, output ...[]byte) {
	if len(c.Problems) > 0 {
		c.Output = string(tail(bytes.Join(output, []byte("\n"))))
	}
	s.Clients = append(s.Clients, c)
}

func tail(b []byte) []byte {
	const most = 4 << 10
	b = bytes.TrimSpace(b)
	return b[max(0, len(b)-most):]
}
