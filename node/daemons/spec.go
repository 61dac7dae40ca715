// Package daemons starts and supervises the programs that serve the driver while it is loaded: nvidia-persistenced, the fabric manager
// with the NVLink subnet manager, and the licence daemons of vGPU guests.
//
// A daemon that ends is started again, with growing pauses and without ever giving up; its state says that it is down and why. Programs
// that stay in the foreground are followed as children, those that fork by their pid file and a pidfd. The package decides
// which daemons a machine needs (Persistenced, FabricManager, VGPU) but not what a dead one means for readiness.
package daemons

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Spec describes one daemon.
type Spec struct {
	Name string
	Path string   // the program; with PIDFile it forks, and has started well when it ends with 0
	Args []string // without the program's name
	Env  []string // nil: this process's environment

	PIDFile  string   // of a daemon that forks; "" when the program stays in the foreground
	Also     []string // pid files of further daemons that the same program starts: all are up, or none counts
	Programs []string // names of the programs behind the pid files, when Path is not one of them

	// Before runs before each start, After once after the first one that went well. Both have StartWait.
	Before, After func(context.Context) error
	// Ready is asked until it returns nil, and Socket is connected to until that works. With neither, a program that forks is ready when
	// it says so by its exit code, and one in the foreground when it is still there after a moment.
	Ready  func(context.Context) error
	Socket string

	StartWait time.Duration // for one whole start, default 1 min
	StopWait  time.Duration // between SIGTERM and SIGKILL, default 10 s
	Required  bool          // Start fails when it does not start; otherwise it is retried in the background
}

func (s Spec) withDefaults() Spec {
	if s.StartWait <= 0 {
		s.StartWait = time.Minute
	}
	if s.StopWait <= 0 {
		s.StopWait = 10 * time.Second
	}
	return s
}

// State is what is known of a daemon now. Reason says in one line why it is not ready; Since is when Ready last changed.
type State struct {
	Name     string    `json:"name"`
	PID      int       `json:"pid,omitempty"`
	Running  bool      `json:"running"`
	Ready    bool      `json:"ready"`
	Restarts int       `json:"restarts"` // starts after the first one
	Reason   string    `json:"reason,omitempty"`
	Since    time.Time `json:"since"`
}

// StartError says that a daemon did not start. Output are the last lines that it printed.
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

// line is the error in one line, for a State.
func (e *StartError) line() string {
	text := fmt.Sprintf("start of %s: %v", e.Path, e.Err)
	if n := len(e.Output); n > 0 {
		text += ": " + e.Output[n-1]
	}
	return text
}
