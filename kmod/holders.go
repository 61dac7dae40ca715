//go:build linux

package kmod

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Holder is a process that keeps NVIDIA's modules in use, or a module with references that no
// process explains.
type Holder struct {
	PID     int    // 0 when Kernel is set
	Command string // as in /proc/PID/comm, at most 15 bytes of the program's name
	// the device files that it holds, by the path that it opened: "/dev/nvidiactl"; sorted
	Files []string
	// the container's id, 64 hex digits; "" outside of containers, and where cgroups do not show it
	Container string
	Pod       string // the uid of its pod; "" outside of pods
	// PodName and PodNamespace are "" outside of pods, and where the host's /var/log/pods is not
	// visible or lacks the pod.
	PodName, PodNamespace string
	// Kernel names a module with references that no visible process accounts for: a part of the
	// kernel (a console on nvidia_drm) or a process of another pid namespace holds it. It is "" for
	// processes.
	Kernel string
}

// String describes the holder for a log:
//
//	pid 4711 (python3) in container 3f2a41c09b7d pod team-a/train-0: /dev/nvidia0, /dev/nvidiactl
func (h Holder) String() string {
	if h.Kernel != "" {
		return "module " + h.Kernel + ": references that no visible process accounts for (the kernel itself, such as a console, " +
			"or a process of another pid namespace: run with hostPID)"
	}
	text := fmt.Sprintf("pid %d (%s)", h.PID, h.Command)
	place := " in"
	if h.Container != "" {
		text += place + " container " + h.Container[:min(12, len(h.Container))]
		place = ""
	}
	if pod := h.PodText(); pod != "" {
		text += place + " pod " + pod
	}
	if len(h.Files) > 0 {
		text += ": " + strings.Join(h.Files, ", ")
	}
	return text
}

// Holds reports whether the holder has a device file of a module open, by the file's usual name
// (/dev/nvidia-uvm-tools of nvidia_uvm).
func (h Holder) Holds(module string) bool {
	return h.Kernel == module || slices.ContainsFunc(h.Files, func(file string) bool {
		if strings.HasPrefix(file, "/dev/dri/") {
			return module == "nvidia_drm"
		}
		return moduleOfDevice(filepath.Base(file)) == module
	})
}

// PodText returns the pod as NAMESPACE/NAME, or its uid where the name is not known; "" outside of
// pods.
func (h Holder) PodText() string {
	if h.PodName != "" {
		return h.PodNamespace + "/" + h.PodName
	}
	return h.Pod
}

const (
	maxHeld     = 64 // files named per process
	processWait = 2 * time.Second
	maxStuck    = 8 // processes on a dead file server that one look waits for; that takes 16 s
)

// Holders returns the processes that have a device of NVIDIA's modules open or mapped, by whatever
// path, in the order of their pids. It compares the device numbers of everything in /proc/*/fd and
// of the mapped files with the majors that /proc/devices gives to nvidia*, gdrdrv and 195, and with
// the DRM nodes of NVIDIA GPUs. It leaves out the processes of except (our own daemons). Modules of
// the nvidia stack with references that no process explains (excepted processes included) come last.
// Only processes of this pid namespace are visible.
//
// Looking at an open file can hang on a dead network file system. So Holders looks at files under
// /dev first and gives a process 2 s; after that, what it found until then counts. The error is
// that of the context, or says that Holders gave up on too many processes.
func (s System) Holders(ctx context.Context, except ...int) ([]Holder, error) {
	all, err := s.holders(ctx, except)
	if err != nil {
		return all, fmt.Errorf("find who holds the driver: %w", err)
	}
	return all, nil
}

func (s System) holders(ctx context.Context, except []int) ([]Holder, error) {
	devices, err := s.devices()
	if err != nil {
		return nil, err
	}
	before := s.unexplainedRefs()
	pids, err := s.pids()
	if err != nil {
		return nil, err
	}
	var holders []Holder
	explained := map[string]bool{}
	stuck := 0
	name := s.podNames()
	for _, pid := range pids {
		found, err := s.scanProcess(ctx, pid, devices)
		if ctx.Err() != nil {
			return holders, ctx.Err()
		}
		if err != nil {
			stuck++
		}
		if stuck > maxStuck {
			return holders, fmt.Errorf(
				"%w: more than %d processes could not be looked at, "+
					"a network file system that they use may be dead",
				err,
				maxStuck,
			)
		}
		if len(found) == 0 {
			continue
		}
		var files []string
		for path, module := range found {
			explained[module] = true
			files = append(files, path)
		}
		if !slices.Contains(except, pid) {
			slices.Sort(files)
			h := s.Process(pid)
			h.Files = files[:min(len(files), maxHeld)]
			h.PodNamespace, h.PodName = name(h.Pod)
			holders = append(holders, h)
		}
	}
	return append(holders, s.kernelHolders(before, explained)...), nil
}

// pids returns the process numbers, in ascending order.
func (s System) pids() ([]int, error) {
	entries, err := os.ReadDir(s.proc())
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		pids = append(pids, pid)
	}
	slices.Sort(pids)
	return pids, nil
}

// scanProcess returns what one process holds, as path to module. An error says that it took too
// long; the result then has what was found until then.
func (s System) scanProcess(
	ctx context.Context,
	pid int,
	devices *deviceTable,
) (map[string]string, error) {
	ctx, cancel := context.WithTimeoutCause(
		ctx,
		processWait,
		fmt.Errorf("pid %d gives no answer", pid),
	)
	defer cancel()
	found := make(chan heldFile)
	go func() { // ends when the last file system has answered
		defer close(found)
		scan := processScan{s.proc(strconv.Itoa(pid)), devices, found}
		scan.run(ctx)
	}()
	files := map[string]string{}
	for {
		select {
		case file, ok := <-found:
			if !ok {
				return files, context.Cause(ctx)
			}
			if len(files) < 16*maxHeld {
				files[file.path] = file.module
			}
		case <-ctx.Done():
			return files, context.Cause(ctx)
		}
	}
}

// unexplainedRefs lists modules of the stack that have more references than holders at this moment.
// nvidia_drm with its own mode setting keeps the modules below it in use; they are then not listed,
// because they are free when nvidia_drm is gone.
func (s System) unexplainedRefs() []string {
	stack, err := s.Stack("nvidia")
	if err != nil {
		return nil
	}
	drm := slices.ContainsFunc(stack, func(m Module) bool { return m.Name == "nvidia_drm" })
	var names []string
	for _, m := range stack {
		if drm && (m.Name == "nvidia" || m.Name == "nvidia_modeset") {
			continue
		}
		if m.Refs > len(m.Holders) {
			names = append(names, m.Name)
		}
	}
	return names
}

// kernelHolders returns the modules that had references without a holder before the processes were
// looked at, still have them, and have no device that a process holds. Processes that open a device
// of a module on top of nvidia also add a reference to nvidia.
func (s System) kernelHolders(before []string, explained map[string]bool) []Holder {
	now := s.unexplainedRefs()
	var holders []Holder
	for _, name := range before {
		known := explained[name] || name == "nvidia" && len(explained) > 0
		if !known && slices.Contains(now, name) {
			holders = append(holders, Holder{Kernel: name})
		}
	}
	return holders
}
