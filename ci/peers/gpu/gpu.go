package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
)

// errNoGPU means that the machine has no GPU with a loaded driver: there is nothing to ask.
var errNoGPU = errors.New("this machine has no NVIDIA GPU with a loaded driver")

// answer is a row of the table.
type answer struct {
	Question    string
	Answer      string
	Compared    string   // with what and how
	Differences []string // from what it was compared with
	NotAsked    string   // why this machine cannot answer, "" if it can
}

// result is "same", "DIFFERENT" or "not asked".
func (a *answer) result() string {
	switch {
	case a.NotAsked != "":
		return "not asked"
	case len(a.Differences) > 0:
		return "DIFFERENT"
	}
	return "same"
}

func (a *answer) differ(format string, args ...any) {
	a.Differences = append(a.Differences, fmt.Sprintf(format, args...))
}

// expect notes a difference between two values of the same thing.
func (a *answer) expect(what, got, want string) {
	if got != want {
		a.differ("%s is %q, want %q", what, got, want)
	}
}

// questions are asked in this order: the later ones use what the earlier ones found.
var questions = []struct {
	name string
	ask  func(context.Context, *session, *answer)
}{
	{"version of the loaded driver", askVersion},
	{"driver-probe, through NVML", askProbe},
	{"driver-probe's fallback, nvidia-smi", askFallback},
	{"GPUs on the PCI bus", askBus},
	{"GPUs that the driver has taken, device files", askTaken},
	{"preflight on the real bus", askPreflight},
}

// ask asks all questions. The error is errNoGPU, or why nothing could be asked; differences are no
// error.
func ask(ctx context.Context, m machine) (answers []answer, _ error) {
	s, err := open(ctx, m)
	if err != nil {
		return nil, err
	}
	for _, q := range questions {
		a := answer{Question: q.name}
		q.ask(ctx, s, &a)
		answers = append(answers, a)
	}
	return answers, nil
}

// table returns the answers as a table of Markdown, and whether one differs.
func table(answers []answer) (text string, different bool) {
	cell := strings.NewReplacer("\n", " ", "|", `\|`) // texts may come from the driver
	text = "| result | asked | answer | compared with, or what differs, or why not asked |\n|---|---|---|---|\n"
	for _, a := range answers {
		words := cmp.Or(a.NotAsked, strings.Join(a.Differences, "; "), a.Compared)
		text += fmt.Sprintf(
			"| %s | %s | %s | %s |\n",
			a.result(),
			a.Question,
			cell.Replace(a.Answer),
			cell.Replace(words),
		)
		different = different || len(a.Differences) > 0
	}
	return text, different
}
