package rehearse

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/driver-container/driver-container/images/rehearse/guest"
)

const (
	oldVersion = "470.256.02"
	newVersion = "535.261.03"
)

// fakeNode is a node on which drivers live as driver-entrypoint lets them. It knows the questions
// of a rehearsal and no others. Its trouble is what goes wrong.
type fakeNode struct {
	t       *testing.T
	trouble trouble

	loaded, status string
	stays          string // a mount that a stop forgot
	log            []string
	tainted        int
	files          map[string]string
	held           bool
	serving        *fakeProcess
	waiting        *fakeProcess // for the holder
	left           []*fakeProcess
}

// trouble is what goes wrong.
type trouble struct {
	preflight   string // checks in JSON
	noModules   bool
	refuses     bool   // the kernel refuses the module
	logs        string // what the kernel writes at a load
	taint       int
	before      int // taint of the kernel without a driver
	notReady    bool
	notLater    bool // nor is a driver that waited for a holder
	noDevices   bool
	smi         int    // exit code of nvidia-smi
	library     string // version of the libraries
	takesAway   bool   // a stop unloads a driver in use
	loadsAgain  bool   // a restart does not adopt
	leaves      bool   // a stop leaves a mount
	noWay       bool   // no way back
	impatient   bool   // an upgrade does not wait for holders
	compiles    bool
	foreign     bool // the container is NVIDIA's
	dies        bool // the guest is gone at a load
	hangs       bool // so does the load
	stopCode    int
	oldNotReady bool
}

var errGone = errors.New("the guest is gone")

// fakeProcess is a container, or a process that has a device open.
type fakeProcess struct {
	node    *fakeNode
	version string
	lines   []string
	seen    int
	ended   bool
	code    int
	holder  bool
	gone    bool
}

func (p *fakeProcess) print(lines ...string) { p.lines = append(p.lines, lines...) }

func (p *fakeProcess) end(code int) {
	p.ended = true
	p.code = code
}

func (p *fakeProcess) WaitLine(ctx context.Context, line *regexp.Regexp) (string, error) {
	for ; p.seen < len(p.lines); p.seen++ {
		if line.MatchString(p.lines[p.seen]) {
			p.seen++
			return p.lines[p.seen-1], nil
		}
	}
	if p.gone {
		return "", errGone
	}
	if p.ended {
		return "", errors.New("ended without such a line")
	}
	<-ctx.Done()
	return "", ctx.Err()
}

func (p *fakeProcess) Wait(ctx context.Context) (int, error) {
	if p.gone {
		return 0, errGone
	}
	if !p.ended {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return p.code, nil
}

func (p *fakeProcess) Output() string { return strings.Join(p.lines, "\n") + "\n" }

// Signal is SIGTERM, which stops a driver.
func (p *fakeProcess) Signal(_ context.Context, s syscall.Signal) error {
	n := p.node
	if s != syscall.SIGTERM || p.ended {
		n.t.Errorf("signal %v of a container that ended: %v", s, p.ended)
	}
	p.end(n.trouble.stopCode)
	n.serving = nil
	if n.held && !n.trouble.takesAway {
		n.status = strings.Replace(n.status, "serving", "detached", 1)
		return nil
	}
	n.status, n.loaded = "", ""
	if n.trouble.leaves {
		n.stays = "/run/nvidia/driver"
	}
	return nil
}

// Kill removes a container, and ends it before if it runs. A driver stays loaded then.
func (p *fakeProcess) Kill(context.Context) error {
	n := p.node
	n.left = slices.DeleteFunc(n.left, func(other *fakeProcess) bool { return other == p })
	if !p.ended {
		p.end(137)
	}
	if p.holder {
		n.held = false
		if w := n.waiting; w != nil {
			n.waiting = nil
			n.load(w)
		}
	}
	return nil
}

func (n *fakeNode) Write(_ context.Context, path string, content []byte, _ fs.FileMode) error {
	n.files[path] = string(content)
	return nil
}

func (n *fakeNode) Dmesg(context.Context) (string, error) {
	var b strings.Builder
	for i, line := range n.log {
		fmt.Fprintf(&b, "[%5d.000000] %s\n", i, line)
	}
	return b.String(), nil
}

func (n *fakeNode) Hold(_ context.Context, path string) (process, error) {
	if path != device || n.loaded == "" {
		n.t.Errorf("hold %s of the driver %q", path, n.loaded)
	}
	n.held = true
	p := &fakeProcess{node: n, holder: true}
	n.left = append(n.left, p)
	return p, nil
}

// Run answers the questions of a rehearsal.
func (n *fakeNode) Run(_ context.Context, args ...string) (guest.Result, error) {
	answer := func(output string) (guest.Result, error) {
		return guest.Result{Args: args, Output: output + "\n"}, nil
	}
	script := args[len(args)-1]
	switch {
	case args[2] == `exec 3<>"$1"`:
		result := guest.Result{Args: args, Output: "can't open " + script}
		if n.trouble.noDevices {
			result.Code = 1
		}
		return result, nil
	case script == "nvidia-smi":
		return guest.Result{Args: args, Code: n.trouble.smi, Output: "No devices were found\n"}, nil
	case strings.Contains(script, statusFile):
		return answer(n.status)
	case strings.Contains(script, "/proc/modules"):
		modules := "ext4"
		if n.loaded != "" {
			modules += "\nnvidia"
		}
		return answer(modules)
	case strings.Contains(script, "mountinfo"):
		if n.loaded != "" {
			return answer("/run/nvidia/driver")
		}
		return answer(n.stays)
	case strings.HasPrefix(script, "ls -d /dev/nvidia*"):
		return answer("")
	case strings.Contains(script, "/proc/sys/kernel/tainted"):
		return answer(fmt.Sprint(n.tainted))
	case strings.Contains(script, "/sys/module/nvidia/version"):
		return answer(n.loaded)
	case strings.Contains(script, "stat -c"):
		if n.trouble.noDevices {
			return answer("")
		}
		return answer("/dev/nvidia0 c3:0\n/dev/nvidiactl c3:ff")
	case strings.Contains(script, "libcuda"):
		version := n.loaded
		if n.trouble.library != "" {
			version = n.trouble.library
		}
		return answer("libcuda.so." + version + "\nlibnvidia-ml.so." + version)
	}
	n.t.Errorf("a rehearsal asked for %q", args)
	return guest.Result{}, errors.New("unknown question")
}

func (n *fakeNode) StartContainer(_ context.Context, c guest.Container) (process, error) {
	p := &fakeProcess{node: n, version: newVersion}
	if c.Image == "previous" {
		p.version = oldVersion
	}
	n.left = append(n.left, p)
	if slices.Contains(c.Command, "preflight") {
		p.print("a line of the log", "{", `  "schema": 1, "items": [`+n.trouble.preflight+"]", "}")
		p.end(0)
		return p, nil
	}
	if n.serving != nil && !n.serving.ended {
		n.t.Errorf("two containers at a time")
	}
	n.start(p, c)
	return p, nil
}

// start is what a driver's container does at its start.
func (n *fakeNode) start(p *fakeProcess, c guest.Container) {
	if n.trouble.foreign {
		n.loaded = p.version
		p.print("Done, now waiting for signal")
		return
	}
	n.serving = p
	if n.trouble.noModules {
		n.status = `{"state": "failed", "reason": "no modules for this kernel"}`
		p.print("error: no modules for this kernel")
		p.end(11)
		return
	}
	if n.trouble.compiles {
		p.print("compiling driver="+p.version,
			"compile progress done=37 total=477 duration=10s step=nv.o",
			"compile progress done=476 total=477 duration=20s step=nv.o")
	}
	p.print("phase finished phase=modules duration=1s")
	poisoned := slices.ContainsFunc(c.Mounts, func(m guest.Mount) bool { return m.Host == poisonFile && n.files[m.Host] == poison })
	switch {
	case poisoned && n.trouble.noWay:
		n.loaded, n.status = "", `{"state": "failed"}`
		p.end(13)
	case poisoned:
		n.status = strings.Replace(n.status, "serving", "restored", 1)
		p.end(13)
	case n.loaded == p.version && n.trouble.loadsAgain:
		n.load(p)
	case n.loaded == p.version:
		p.print("adopting it driver="+p.version, "phase finished phase=load", "ready driver="+p.version)
		n.up(p)
	case n.loaded != "" && n.held && !n.trouble.impatient:
		p.print("waiting to replace the driver driver=" + n.loaded)
		n.waiting = p
	default:
		n.load(p)
	}
}

func (n *fakeNode) up(p *fakeProcess) {
	n.status = `{"state": "serving", "ready": true, "up": {"version": "` + p.version + `", "nodes": [{"path": "/dev/nvidia0", "major": 195, "minor": 0}]},
		"phases": [{"phase": "load", "seconds": 3}]}`
}

func (n *fakeNode) load(p *fakeProcess) {
	if n.trouble.dies {
		p.gone = true
		return
	}
	if n.trouble.hangs {
		return
	}
	if n.trouble.logs != "" {
		n.log = append(n.log, n.trouble.logs)
	}
	if n.trouble.refuses {
		n.status = `{"state": "failed", "reason": "the kernel refused the module nvidia"}`
		p.print("error: the kernel refused the module nvidia")
		p.end(13)
		return
	}
	n.log = append(n.log, "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  "+p.version)
	n.loaded = p.version
	n.tainted |= 1 | 1<<12 | n.trouble.taint
	n.up(p)
	p.print("phase finished phase=load duration=1s")
	if n.trouble.notReady || n.trouble.notLater && slices.Contains(p.lines, "waiting to replace the driver driver="+oldVersion) || n.trouble.oldNotReady && p.version == oldVersion {
		n.status = strings.Replace(n.status, `"ready": true`, `"ready": false, "reason": "a daemon is down"`, 1)
		p.print("not ready: a daemon is down")
		return
	}
	p.print("ready driver=" + p.version)
}
