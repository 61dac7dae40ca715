// Package daemons starts and supervises the programs that serve the driver while it is loaded, such
// as nvidia-persistenced. Package fabric has those of NVLink switches, package vgpu those of vGPU
// guests.
//
// A daemon that ends is started again, with growing pauses and without a limit on attempts; its
// state says that it is down and why. Programs that stay in the foreground are watched as children,
// programs that fork through their pid file. The package does not decide what a dead daemon means
// for readiness.
package daemons

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Spec describes one daemon.
type Spec struct {
	Name string
	// the program; with PIDFile it forks, and has started well when its first process exits with 0
	Path string
	Args []string // without the program's name
	Env  []string // nil: the environment of this process

	PIDFile string // of a daemon that forks; "" when the program stays in the foreground

	// Needs is the name of a daemon before it in the list: this one is started when that one is
	// ready, and is ended and started again when that one has ended.
	Needs string
	// Effect says what users of the driver notice while the daemon is down.
	Effect string
	// Log is a file that the program writes messages to. If it prints nothing, its last lines
	// explain an end.
	Log string

	// Before runs before each start, After once after the first successful one. StartWait limits
	// each of them.
	Before, After func(context.Context) error
	// FindArgs returns further arguments, which are found at each start, after Before, and words
	// about them for the state.
	FindArgs func(context.Context) (args []string, detail string, err error)
	// Socket is connected to until that works: then the daemon is ready. Without one, a forking
	// program is ready when its first process exits with 0, and a foreground program when it still
	// runs after a moment.
	Socket string

	StartWait time.Duration // for one whole start, default 1 min
	StopWait  time.Duration // time between SIGTERM and SIGKILL, default 10 s
	// Start fails if this daemon does not start; others are retried in the background
	Required bool
}

// State is the present state of a daemon. Reason says in one line why it is not ready; Since is
// when Ready last changed.
type State struct {
	Name     string `json:"name"`
	PID      int    `json:"pid,omitempty"`
	Running  bool   `json:"running"`
	Ready    bool   `json:"ready"`
	Restarts int    `json:"restarts"` // starts after the first one
	Reason   string `json:"reason,omitempty"`
	// what users of the driver notice while it is not ready
	Effect string `json:"effect,omitempty"`
	// what was found at its start, such as the port that it works on
	Detail string    `json:"detail,omitempty"`
	Since  time.Time `json:"since"`
}

// Ending says what users of the driver notice when daemons end with their container and the driver
// stays; "" if nothing.
func Ending(states []State) string {
	var ends []string
	for _, s := range states {
		if s.Effect != "" {
			ends = append(ends, fmt.Sprintf("%s ends with this container (%s)", s.Name, s.Effect))
		}
	}
	return strings.Join(ends, "; ")
}

// Down says which daemons are not ready, and why; "" if all are.
func Down(states []State) string {
	var down []string
	for _, s := range states {
		if !s.Ready {
			text := fmt.Sprintf("%s is not running: %s", s.Name, s.Reason)
			if s.Effect != "" {
				text += " (" + s.Effect + ")"
			}
			down = append(down, text)
		}
	}
	return strings.Join(down, "; ")
}

// StartError says that a daemon did not start. Output has the last lines that it printed.
type StartError struct {
	Name, Path string
	Output     []string
	Err        error
}

func (e *StartError) Error() string {
	text := fmt.Sprintf("start %s (%s): %v", e.Name, e.Path, e.Err)
	if len(e.Output) > 0 {
		text += "; its last output:\n  " + strings.Join(e.Output, "\n  ")
	}
	return text
}

func (e *StartError) Unwrap() error { return e.Err }

// line returns the error in one line, for a State.
func (e *StartError) line() string {
	text := fmt.Sprintf("start of %s: %v", e.Path, e.Err)
	if n := len(e.Output); n > 0 {
		text += ": " + e.Output[n-1]
	}
	return text
}

// Persistenced returns the daemon that keeps the GPUs initialised while nobody uses them; nothing
// when the image, whose root this is, has no nvidia-persistenced. The daemon has no foreground mode
// and prints nothing: its messages go to syslog, that is, to /dev/log when the host's is mounted.
// Its first process ends with 0 when all GPUs are initialised and its socket exists, which can take
// long. It is not Required: a node can serve without it.
func Persistenced(root string) []Spec {
	program := filepath.Join(root, "usr/bin/nvidia-persistenced")
	if st, err := os.Stat(program); err != nil || !st.Mode().IsRegular() {
		return nil
	}
	run := filepath.Join(root, "var/run/nvidia-persistenced")
	return []Spec{{
		Name: "nvidia-persistenced", Path: program, Args: []string{"--persistence-mode"},
		PIDFile: filepath.Join(
			run,
			"nvidia-persistenced.pid",
		), Socket: filepath.Join(run, "socket"),
		StartWait: 2 * time.Minute, StopWait: 10 * time.Second,
	}}
}
