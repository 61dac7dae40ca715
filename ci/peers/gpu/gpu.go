package gpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// ErrNoGPU means that the machine has no GPU with a loaded driver: there is nothing to ask.
var ErrNoGPU = errors.New("this machine has no NVIDIA GPU with a loaded driver")

// Result says how an answer compares with its reference.
type Result string

// Results.
const (
	Same      Result = "same"
	Different Result = "DIFFERENT"
	NotAsked  Result = "not asked"
)

// Answer is a row of the table. Compared says with what and how, or why the question was not asked.
type Answer struct {
	Result   Result
	Question string
	Answer   string
	Compared string
}

// Machine says where things are. The zero value of Root is this machine.
type Machine struct {
	Root     string        // "/"; a stand-in in tests
	Programs string        // folder with driver-probe
	Timeout  time.Duration // of one program; 0: a minute
}

// found is what a question found out. why says why it could not be asked; differences are those from the
// reference.
type found struct {
	answer, compared, why string
	differences           []string
}

// notAsked is the result of a question that this machine cannot answer.
func notAsked(format string, args ...any) found { return found{why: fmt.Sprintf(format, args...)} }

func (f *found) differ(format string, args ...any) {
	f.differences = append(f.differences, fmt.Sprintf(format, args...))
}

// expect notes a difference between two values of the same thing.
func (f *found) expect(what, got, want string) {
	if got != want {
		f.differ("%s is %q, want %q", what, got, want)
	}
}

// question is one row of the table.
type question struct {
	name string
	ask  func(context.Context, *session) found
}

// questions are asked in this order: the later ones use what the earlier ones found.
func questions() []question {
	return []question{
		{"version of the loaded driver", askVersion},
		{"driver-probe, through NVML", askProbe},
		{"driver-probe's fallback, nvidia-smi", askFallback},
		{"memory and utilisation", askUsage},
		{"GPUs on the PCI bus", askBus},
		{"GPUs that the driver has taken, device files", askTaken},
		{"preflight on the real bus", askPreflight},
	}
}

// Ask asks all questions. The error is ErrNoGPU, or why nothing could be asked; differences are no error.
func Ask(ctx context.Context, m Machine) (answers []Answer, err error) {
	work, err := os.MkdirTemp("", "gpu-check-*")
	if err != nil {
		return nil, fmt.Errorf("make a work folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	s, err := open(ctx, m, work)
	if err != nil {
		return nil, err
	}
	for _, q := range questions() {
		a := Answer{Question: q.name}
		if ctx.Err() != nil {
			a.Result, a.Compared = NotAsked, "the time was over"
		} else {
			a.set(q.ask(ctx, s))
		}
		answers = append(answers, a)
	}
	return answers, nil
}

func (a *Answer) set(f found) {
	a.Result, a.Answer, a.Compared = Same, f.answer, f.compared
	switch {
	case f.why != "":
		a.Result, a.Compared = NotAsked, f.why
	case len(f.differences) > 0:
		a.Result, a.Compared = Different, strings.Join(f.differences, "; ")
	}
}
