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
	"github.com/driver-container/driver-container/images/workdir"
)

// config is what the inner process reads from a pipe. No other process can read it, and it cannot leak into a
// command's arguments or environment.
type config struct {
	Root   string   // absolute path of the folder that becomes the root
	Args   []string // empty: set everything up, run nothing
	Env    []string
	Memory int64 // bytes for each process alone, where no cgroup bounds them together; 0: no bound
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

// inner is one inner process, seen by the outer one.
type inner struct {
	config config
	lines  *runner.Lines
	group  *cgroup // nil: none
}

// execute runs the command in the unpacked root and returns nil or the way in which it failed.
func (r *Runner) execute(ctx context.Context, s runner.Step, f *workdir.Dir, output func(string)) (err error) {
	lines := runner.NewLines(func(line string) {
		if output != nil && ctx.Err() == nil {
			output(line)
		}
	})
	in := inner{lines: lines, config: config{Root: f.Path + "/root", Args: s.Args, Env: s.Env}}
	in.group, err = r.groups.make(f, s.Memory)
	if err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	defer func() { err = errors.Join(err, in.group.remove()) }()
	if in.group == nil {
		in.config.Memory = s.Memory
	}
	st, err := in.run(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	failed := &runner.FailedError{Step: s.Name, Runner: r.String(), Code: -1, Tail: lines.Tail()}
	killed := in.group.killed()
	switch {
	case st.Start != "":
		failed.Err = errors.New(st.Start)
	case st.Signal != 0:
		failed.Err = explainSignal(unix.Signal(st.Signal), killed)
	case st.Code != 0:
		failed.Code = st.Code
	default:
		return nil
	}
	if killed && st.Signal == 0 {
		failed.Err = fmt.Errorf("the kernel killed a process of it: together they used more than %d bytes of memory: give it more, or fewer jobs", s.Memory)
	}
	return failed
}

// explainSignal says in plain words what killed a command.
func explainSignal(sig unix.Signal, memory bool) error {
	switch {
	case memory:
		return fmt.Errorf("it was killed (%s) because the step used more memory than it may: give it more, or fewer jobs", unix.SignalName(sig))
	case sig == unix.SIGKILL:
		return errors.New("it was killed by SIGKILL: nearly always the kernel does that when the machine runs out of memory (its log says so): use fewer jobs or a larger machine")
	default:
		return fmt.Errorf("it was killed by %s (%s)", unix.SignalName(sig), sig)
	}
}

// run starts the inner process and waits for its end. When the context ends, run kills the process, and the
// kernel then kills everything in its pid namespace: when run returns, nothing of the step runs and nothing
// is mounted.
func (in *inner) run(ctx context.Context) (status, error) {
	// The kernel sends the parent-death signal when the thread that started the process ends: so the thread must
	// stay.
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
	cmd := in.command(ctx, configRead, statusWrite)
	err = errors.Join(cmd.Start(), configRead.Close(), statusWrite.Close())
	if err != nil {
		if ctx.Err() != nil {
			return status{}, context.Cause(ctx)
		}
		return status{}, fmt.Errorf("%w: start a process in namespaces of its own: %w: %s", runner.ErrUnavailable, err, advice)
	}
	err = in.sendConfig(cmd.Process.Pid, configWrite)
	if err != nil {
		_ = cmd.Process.Kill() // it waits for its configuration
	}
	raw, readErr := io.ReadAll(io.LimitReader(statusRead, maxStatus))
	waitErr := cmd.Wait()
	if ctx.Err() != nil {
		return status{}, context.Cause(ctx)
	}
	if err = errors.Join(err, readErr); err != nil {
		return status{}, err
	}
	return in.interpretStatus(raw, waitErr)
}

// advice ends every error about something that this machine does not allow.
const advice = "run driver-build as root, allow user namespaces (user.max_user_namespaces, and on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0), or use BuildKit"

// interpretStatus interprets the status of the inner process, and its exit when there is no status.
func (in *inner) interpretStatus(raw []byte, waitErr error) (status, error) {
	var st status
	if err := json.Unmarshal(raw, &st); err == nil {
		if !st.Ready {
			return st, fmt.Errorf("%w: set up the root: %s: %s", runner.ErrUnavailable, st.Setup, advice)
		}
		return st, nil
	}
	var exit *exec.ExitError
	if errors.As(waitErr, &exit) {
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			return status{Ready: true, Signal: int(ws.Signal())}, nil
		}
	}
	if waitErr == nil {
		waitErr = errors.New("exit code 0")
	}
	return st, fmt.Errorf("the process that sets up the root ended without a word: %w: a program that uses this package calls chroot.Init first", waitErr)
}

// command describes the inner process: this program in new namespaces. It has no environment and no terminal,
// so that Ctrl-C reaches only driver-build, which then decides.
func (in *inner) command(ctx context.Context, configRead, statusWrite *os.File) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	// A program without Init fails at once because of the unknown flag and does not do its usual work.
	cmd.Args = []string{innerName, "--inner-process-of-chroot"}
	cmd.Env = []string{}
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{configRead, statusWrite}
	cmd.Stdout, cmd.Stderr = in.lines, in.lines
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
	cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	return cmd
}

// sendConfig moves the process, which waits for its configuration, into its cgroup and then sends the
// configuration.
func (in *inner) sendConfig(pid int, w *os.File) error {
	if err := in.group.add(pid); err != nil {
		return err
	}
	b, err := json.Marshal(in.config)
	if err == nil {
		_, err = w.Write(b)
	}
	if err = errors.Join(err, w.Close()); errors.Is(err, unix.EPIPE) {
		return nil // it died: its status or its exit tells more
	}
	return err
}

// privileged reports whether this process may make namespaces without a user namespace: it is root with
// CAP_SYS_ADMIN.
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
