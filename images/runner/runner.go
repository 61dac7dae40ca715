// Package runner executes one command in an assembled root. Nothing else in driver-build executes
// anything.
//
// This package has what all runners share: the step, the interface, the errors, and the handling of
// a command's output. Package chroot runs a step on this machine, package buildkit in a BuildKit
// daemon. Package ci/testkit/runnertest tests the behaviour that both must have. No runner knows
// the purpose of a step.
package runner

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/failure"
)

// ErrUnavailable says that a runner cannot run anything now: there is no daemon, the privileges are
// missing, or the step is for another architecture. The error that wraps it says what to do.
var ErrUnavailable = failure.New(failure.Network, "the runner is not available")

// Step is one command in one root, made by this project: runners do not look for mistakes in it.
// The command gets nothing else: no network, no stdin, no file or variable of the machine that runs
// it. It runs as user 0 of its root with / as its working directory.
type Step struct {
	Name   string     // for people: "modules 535.261.03 proprietary 6.1.0-56-amd64"
	Arch   string     // Go name: "amd64"
	Layers []v1.Layer // layers of the root, the bottom one first
	Args   []string   // the program by its absolute path in the root, and its arguments
	Env    []string   // its complete environment; must have PATH and HOME
	// absolute path of a folder in the root; empty and writable before the command runs; its
	// content is the result
	Output string
}

// Runner executes steps. It is safe for concurrent use.
type Runner interface {
	// Run executes the step and copies the content of Step.Output into dir, an empty folder of this machine:
	// regular files with mode 0644 and folders with mode 0755; anything else in it is an error. Run calls output
	// for every line that the command prints, in order, from one goroutine at a time; output may be nil. Errors:
	// *FailedError, ErrUnavailable (wrapped), ctx's cause.
	Run(ctx context.Context, s Step, dir string, output func(line string)) error
	String() string // for messages: "chroot", "buildkit unix:///run/buildkit/buildkitd.sock"
}

// FailedError says that the command of a step failed.
type FailedError struct {
	Step, Runner string
	Code         int      // the command's exit code; -1: killed, or not started
	Tail         []string // the last 40 lines that it printed
	Err          error    // the reason in words; may be nil where Code is the whole reason
}

func (e *FailedError) Error() string {
	how := "was killed or not started"
	if e.Code >= 0 {
		how = fmt.Sprintf("exited with code %d", e.Code)
	}
	text := fmt.Sprintf("%s: the command in the runner %s %s", e.Step, e.Runner, how)
	if e.Err != nil {
		text += fmt.Sprintf(": %v", e.Err)
	}
	if n := len(e.Tail); n > 0 {
		text += fmt.Sprintf("; its last %d lines:\n  %s", n, strings.Join(e.Tail, "\n  "))
	}
	return text
}

// FailureKind says what the command makes of it.
func (*FailedError) FailureKind() failure.Kind { return failure.Step }

// Unwrap returns the reason.
func (e *FailedError) Unwrap() error { return e.Err }

// Covered reports whether an absolute path lies where a runner may mount something over the content
// of the layers.
func Covered(p string) bool {
	top, _, _ := strings.Cut(strings.TrimPrefix(p, "/"), "/")
	return slices.Contains([]string{"proc", "sys", "dev", "tmp"}, top)
}
