//go:build linux

package chroot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/images/runner"
)

// config is what the inner process reads from a pipe. No other process can read it, and it cannot
// leak into a command's arguments or environment.
type config struct {
	Root string   // absolute path of the folder that becomes the root
	Args []string // empty: set everything up, run nothing
	Env  []string
}

// status is what the inner process writes at its end, to another pipe.
type status struct {
	Ready  bool   // the root was set up
	Setup  string // what could not be set up, and why
	Start  string // why the command was not started
	Code   int    // exit code of the command
	Signal int    // signal that killed the command; 0: none
}

const maxStatus = 64 << 10

// execute runs the command in the unpacked root and returns nil or the way in which it failed.
func (r *Runner) execute(
	ctx context.Context,
	s runner.Step,
	root string,
	output func(string),
) error {
	lines := runner.NewLines(output)
	st, err := runInner(ctx, config{Root: root, Args: s.Args, Env: s.Env}, lines)
	if err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	failed := &runner.FailedError{Step: s.Name, Runner: r.String(), Code: -1, Tail: lines.Tail()}
	switch sig := unix.Signal(st.Signal); {
	case st.Start != "":
		failed.Err = errors.New(st.Start)
	case sig == unix.SIGKILL:
		failed.Err = errors.New(
			"it was killed by SIGKILL: nearly always the kernel does that when the machine runs out of memory (its log says so): use fewer jobs or a larger machine",
		)
	case sig != 0:
		failed.Err = fmt.Errorf("it was killed by %s (%s)", unix.SignalName(sig), sig)
	case st.Code != 0:
		failed.Code = st.Code
	default:
		return nil
	}
	return failed
}

// runInner starts the inner process and waits for its end. When the context ends, it kills the
// process, and the kernel then kills everything in its pid namespace: when runInner returns,
// nothing of the step runs and nothing is mounted.
func runInner(ctx context.Context, c config, lines *runner.Lines) (status, error) {
	// The kernel sends the parent-death signal when the thread that started the process ends: so
	// the thread must stay.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	configRead, configWrite, err := os.Pipe()
	if err != nil {
		return status{}, err
	}
	defer configWrite.Close()
	statusRead, statusWrite, err := os.Pipe()
	if err != nil {
		return status{}, errors.Join(err, configRead.Close())
	}
	defer statusRead.Close()
	cmd := command(ctx, configRead, statusWrite)
	cmd.Stdout = lines
	cmd.Stderr = lines
	err = errors.Join(cmd.Start(), configRead.Close(), statusWrite.Close())
	if err != nil {
		if ctx.Err() != nil {
			return status{}, context.Cause(ctx)
		}
		return status{}, fmt.Errorf(
			"%w: start a process in namespaces of its own: %w: %s",
			runner.ErrUnavailable,
			err,
			advice,
		)
	}
	err = json.NewEncoder(configWrite).Encode(c)
	if errors.Is(err, unix.EPIPE) {
		err = nil // it died: its status or its exit tells more
	}
	err = errors.Join(err, configWrite.Close())
	if err != nil {
		_ = cmd.Process.Kill() // it waits for its configuration
	}
	raw, readErr := io.ReadAll(io.LimitReader(statusRead, maxStatus))
	waitErr := cmd.Wait()
	if ctx.Err() != nil {
		return status{}, context.Cause(ctx)
	}
	err = errors.Join(err, readErr)
	if err != nil {
		return status{}, fmt.Errorf("set up the step: %w", err)
	}
	return interpretStatus(raw, waitErr)
}

// advice ends every error about something that this machine does not allow.
const advice = "run driver-build as root, allow user namespaces (user.max_user_namespaces, and on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0), or use BuildKit"

// interpretStatus interprets the status of the inner process, and its exit when there is no status.
func interpretStatus(raw []byte, waitErr error) (status, error) {
	var st status
	if json.Unmarshal(raw, &st) != nil {
		return silent(waitErr)
	}
	if !st.Ready {
		return st, fmt.Errorf("%w: set up the root: %s: %s", runner.ErrUnavailable, st.Setup, advice)
	}
	return st, nil
}

// silent is for a process that ended and said nothing: what killed it, killed the step.
func silent(ended error) (st status, err error) {
	exit, ok := errors.AsType[*exec.ExitError](ended)
	if !ok {
		return st, fmt.Errorf("the process that sets up the root ended without a word: " +
			"a program that uses this package calls chroot.Init first")
	}
	if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return status{Ready: true, Signal: int(ws.Signal())}, nil
	}
	return st, fmt.Errorf("the process that sets up the root ended without a word: %w: "+
		"a program that uses this package calls chroot.Init first", ended)
}

// command describes the inner process: this program in new namespaces. It has no environment and no
// terminal, so that Ctrl-C reaches only driver-build, which then decides.
func command(ctx context.Context, configRead, statusWrite *os.File) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	// A program without Init fails at once because of the unknown flag and does not do its usual
	// work.
	cmd.Args = []string{innerName, "--inner-process-of-chroot"}
	cmd.Env = []string{}
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{configRead, statusWrite}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true,
		Pdeathsig:  syscall.SIGKILL,
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
	}
	if privileged() {
		cmd.SysProcAttr.Credential = &syscall.Credential{} // 0, 0, without further groups
		return cmd
	}
	cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
	cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{
		{ContainerID: 0, HostID: os.Getuid(), Size: 1},
	}
	cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{
		{ContainerID: 0, HostID: os.Getgid(), Size: 1},
	}
	return cmd
}

// privileged reports whether this process may make namespaces without a user namespace: it is root
// with CAP_SYS_ADMIN.
func privileged() bool {
	if os.Geteuid() != 0 {
		return false
	}
	var data [2]unix.CapUserData
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return false
	}
	return data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}
