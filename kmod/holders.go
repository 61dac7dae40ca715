package kmod

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Holder is a process that keeps NVIDIA's modules in use, or a module whose references no process explains.
type Holder struct {
	PID       int      // 0 when Kernel is set
	Command   string   // as in /proc/PID/comm, at most 15 bytes of the program's name
	Files     []string // what it holds, by the path that it used itself: "/dev/nvidiactl"; sorted
	Container string   // its id, 64 hex digits; "" outside of containers, and where cgroups do not show it
	Pod       string   // the uid of its pod; "" outside of pods
	// Name and namespace of the pod; "" outside of pods, and where the host's /var/log/pods cannot be seen or does not have it.
	PodName, PodNamespace string
	// Kernel names a module with references that no process seen here accounts for: a part of the kernel (a console on
	// nvidia_drm) or a process of another pid namespace holds it. "" for processes.
	Kernel string
}

// String describes the holder for a log: pid 4711 (python3) in container 3f2a41c09b7d pod team-a/train-0: /dev/nvidia0, /dev/nvidiactl.
func (h Holder) String() string {
	if h.Kernel != "" {
		return "module " + h.Kernel + ": references that no visible process accounts for (the kernel itself, such as a console, " +
			"or a process of another pid namespace: run with hostPID)"
	}
	var b strings.Builder
	b.WriteString("pid " + strconv.Itoa(h.PID) + " (" + h.Command + ")")
	if h.Container != "" {
		b.WriteString(" in container " + h.Container[:min(12, len(h.Container))])
	}
	if pod := h.PodText(); pod != "" {
		if h.Container == "" {
			b.WriteString(" in")
		}
		b.WriteString(" pod " + pod)
	}
	if len(h.Files) > 0 {
		b.WriteString(": " + strings.Join(h.Files, ", "))
	}
	return b.String()
}

// PodText names the pod as people write it, NAMESPACE/NAME, or its uid where the name is not known; "" outside of pods.
func (h Holder) PodText() string {
	if h.PodName != "" {
		return h.PodNamespace + "/" + h.PodName
	}
	return h.Pod
}

const (
	maxPIDs     = 1 << 20
	maxHeld     = 64 // files named per process
	processWait = 2 * time.Second
	maxStuck    = 8 // processes that a dead file server may cost us; the time is 16 s then
)

// Holders finds the processes that have a device of NVIDIA's modules open or mapped, by whatever path, in the order of their
// pids: it compares the device numbers of everything in /proc/*/fd and of the mapped files, with the majors that
// /proc/devices gives to nvidia*, gdrdrv and 195, and DRM nodes of an NVIDIA GPU. except leaves out processes (our own
// daemons); nil leaves out none. Modules of the stack on nvidia with references that no process explains, excepted ones
// included, come last. Only processes of this pid namespace are seen.
//
// Looking at an open file can hang on a dead network file system: what is under /dev is looked at first, a process gets 2 s, and
// then counts with what was found. The error is that of the context, or says that too many were given up.
func (s System) Holders(ctx context.Context, except func(pid int) bool) ([]Holder, error) {
	devices, err := s.devices()
	if err != nil {
		return nil, fmt.Errorf("find who holds the driver: %w", err)
	}
	before := s.unexplained()
	pids, err := s.pids()
	if err != nil {
		return nil, fmt.Errorf("find who holds the driver: %w", err)
	}
	var holders []Holder
	explained := map[string]bool{}
	stuck := 0
	name := s.podNames()
	for _, pid := range pids {
		found, err := s.process(ctx, pid, devices)
		if err != nil && ctx.Err() != nil {
			return holders, fmt.Errorf("find who holds the driver: %w", ctx.Err())
		}
		if err != nil {
			if stuck++; stuck > maxStuck {
				return holders, fmt.Errorf("find who holds the driver: %w: more than %d processes could not be looked at, "+
					"a network file system that they use may be dead", err, maxStuck)
			}
		}
		if len(found) == 0 {
			continue
		}
		var files []string
		for path, module := range found {
			explained[module] = true
			files = append(files, path)
		}
		if except == nil || !except(pid) {
			slices.Sort(files)
			h := s.Process(pid)
			h.Files = files[:min(len(files), maxHeld)]
			h.PodNamespace, h.PodName = name(h.Pod)
			holders = append(holders, h)
		}
	}
	return append(holders, s.kernelHolders(before, explained)...), nil
}

// pids lists the processes, in the order of their numbers.
func (s System) pids() ([]int, error) {
	d, err := os.Open(s.proc())
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(maxPIDs)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, n := range names {
		if pid, err := strconv.Atoi(n); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids, nil
}

// process finds what one process holds: path to module. An error says that it took too long; what was found until then counts.
func (s System) process(ctx context.Context, pid int, devices *deviceTable) (map[string]string, error) {
	scan := &processScan{dir: s.proc(strconv.Itoa(pid)), devices: devices, found: map[string]string{}}
	done := make(chan struct{})
	go func() { // ends when the last file system answered
		defer close(done)
		scan.run(ctx)
	}()
	timer := time.NewTimer(processWait)
	defer timer.Stop()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = errors.New("pid " + strconv.Itoa(pid) + " gives no answer")
	}
	return scan.result(), err
}

// processScan is shared by the one who waits and the one who looks.
type processScan struct {
	dir     string
	devices *deviceTable
	mu      sync.Mutex
	found   map[string]string
	closed  bool
}

func (p *processScan) add(path, module string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed && len(p.found) < 16*maxHeld {
		p.found[path] = module
	}
}

// result ends the scan for the one who waits: what is found later is dropped.
func (p *processScan) result() map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	return p.found
}

// unexplained lists modules of the stack that have more references than holders, at this moment. nvidia_drm with its own mode
// setting keeps those below it in use by itself: they are not listed then, for they are free when it is gone.
func (s System) unexplained() []string {
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

// kernelHolders are the modules that had references without a holder before the processes were looked at and still have, while
// no process holds a device of theirs. nvidia itself is also referenced by openers of the modules on top of it.
func (s System) kernelHolders(before []string, explained map[string]bool) []Holder {
	now := s.unexplained()
	var holders []Holder
	for _, name := range before {
		known := explained[name] || name == "nvidia" && len(explained) > 0
		if !known && slices.Contains(now, name) {
			holders = append(holders, Holder{Kernel: name})
		}
	}
	return holders
}
