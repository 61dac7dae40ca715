// Command nativestart measures what a start of the driver container costs beside the kernel's own work,
// on a real processor. It runs the program of an unpacked image in namespaces of its own, with a fake
// kernel below.
//
// Real are the image's files, the program with shim and worker, each phase of the start, the state folder and
// the driver root on the disk, procfs, sysfs, driver-probe and NVIDIA's NVML, which finds no driver. Not real
// are finit_module, which the fake kernel (kernel.go) answers at once if the module is of this kernel and
// what it needs is loaded; the kernel's release in uname; what /sys and /proc say of modules, PCI devices and
// the driver; and NVML's answer, which a library gives after it has asked NVIDIA's.
//
//	nativestart -root ROOTFS -state FOLDER -host ROOT -nvml LIBRARY -release 6.1.0-56-amd64 -n 3
//
// Each start is a line of output: the seconds from exec to ready, those of them in which the fake kernel
// read modules, and the phases. The first start is not measured: it fills the state folder if something
// is missing.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// limit bounds one start; the first one copies a driver root.
const limit = 5 * time.Minute

func main() {
	var err error
	switch os.Args[0] {
	case hostRole:
		err = beHost(os.Args[1:])
	case containerRole:
		err = beContainer(os.Args[1:])
	default:
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
		err = measure(ctx, os.Args[1:])
		stop()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "nativestart: %v\n", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, args []string) error {
	var w world
	flags := flag.NewFlagSet("nativestart", flag.ContinueOnError)
	flags.StringVar(&w.root, "root", "", "folder with the files of an unpacked image")
	flags.StringVar(&w.state, "state", "", "folder for /var/lib/nvidia-driver, with the modules")
	flags.StringVar(&w.host, "host", "", "root of the node, with the kernel's own modules")
	flags.StringVar(&w.nvml, "nvml", "", "library that stands for NVML, of nvml.c")
	flags.StringVar(&w.release, "release", "", "kernel of the modules, which uname says")
	runs := flags.Int("n", 3, "number of starts")
	show := flags.Bool("log", false, "print what the starts log to stderr")
	if err := flags.Parse(args); err != nil {
		return err
	}
	first := true
	for n := 0; n < *runs; {
		s, err := w.start(ctx)
		if *show || err != nil {
			fmt.Fprintln(os.Stderr, strings.Join(s.log, "\n"))
		}
		if err != nil {
			return err
		}
		if first {
			first = false
			continue
		}
		n++
		fmt.Printf("%.3f %.3f %s\n", s.ready.Seconds(), s.kernel.Seconds(), strings.Join(s.phases(), " "))
	}
	return nil
}

// started is one start.
type started struct {
	ready  time.Duration // from exec to the line of the log
	kernel time.Duration // of that: the fake kernel's own work
	log    []string
}

// phases returns the phases with their durations, as they were logged: "survey=21ms".
func (s started) phases() (all []string) {
	for _, line := range s.log {
		if _, rest, ok := strings.Cut(line, " phase finished phase="); ok {
			all = append(all, strings.Replace(rest, " duration=", "=", 1))
		}
	}
	return all
}

// start runs the container until it is ready, and ends it.
func (w *world) start(ctx context.Context) (s started, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not ready after %s", limit))
	defer cancel()
	dir, err := os.MkdirTemp(filepath.Dir(w.state), "nativestart-*")
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	k, err := newKernel(filepath.Join(dir, "kernel"), w.release)
	if err != nil {
		return s, fmt.Errorf("make the fake kernel: %w", err)
	}
	cmd, filter, output, err := w.launch(dir)
	if err != nil {
		return s, err
	}
	defer filter.Close()
	defer output.Close()
	defer func() { // process 1 of the namespace: everything ends with it
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	listener, began, err := receive(filter)
	if err != nil {
		text, _ := bufio.NewReader(output).ReadString(0)
		return s, fmt.Errorf("start the container: %w: %s", err, text)
	}
	go k.serve(listener)
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		s.log = append(s.log, lines.Text())
		if strings.Contains(lines.Text(), " ready driver=") {
			s.ready, s.kernel = time.Since(began), k.worked()
		}
		if strings.Contains(lines.Text(), " the driver is up ") {
			return s, k.refused()
		}
	}
	return s, errors.Join(errors.New("the container ended before it was ready"), k.refused(), context.Cause(ctx), lines.Err())
}

// launch starts process 1 of the node, and through it the container, which hands over its filter.
func (w *world) launch(dir string) (cmd *exec.Cmd, filter, output *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, nil, err
	}
	filter, theirs := os.NewFile(uintptr(pair[0]), "filter"), os.NewFile(uintptr(pair[1]), "container")
	defer theirs.Close()
	output, write, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, errors.Join(err, filter.Close())
	}
	defer write.Close()
	cmd = exec.Command("/proc/self/exe") //nolint:gosec,noctx // this program; the caller kills it
	cmd.Args = []string{hostRole, w.root, w.state, w.host, w.nvml, dir}
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = write, write, []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID, Pdeathsig: unix.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, nil, nil, errors.Join(err, filter.Close(), output.Close())
	}
	return cmd, filter, output, nil
}
