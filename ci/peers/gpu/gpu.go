package gpu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// ErrNoGPU means that the machine has no GPU with a loaded driver: there is nothing to ask.
var ErrNoGPU = errors.New("this machine has no NVIDIA GPU with a loaded driver")

// Answer is a row of the table.
type Answer struct {
	Question    string
	Answer      string
	Compared    string   // with what and how
	Differences []string // from what it was compared with
	NotAsked    string   // why this machine cannot answer, "" if it can
}

// Result is "same", "DIFFERENT" or "not asked".
func (a *Answer) Result() string {
	switch {
	case a.NotAsked != "":
		return "not asked"
	case len(a.Differences) > 0:
		return "DIFFERENT"
	}
	return "same"
}

func (a *Answer) differ(format string, args ...any) {
	a.Differences = append(a.Differences, fmt.Sprintf(format, args...))
}

// expect notes a difference between two values of the same thing.
func (a *Answer) expect(what, got, want string) {
	if got != want {
		a.differ("%s is %q, want %q", what, got, want)
	}
}

// questions are asked in this order: the later ones use what the earlier ones found.
var questions = []struct {
	name string
	ask  func(context.Context, *session, *Answer)
}{
	{"version of the loaded driver", askVersion},
	{"driver-probe, through NVML", askProbe},
	{"driver-probe's fallback, nvidia-smi", askFallback},
	{"GPUs on the PCI bus", askBus},
	{"GPUs that the driver has taken, device files", askTaken},
	{"preflight on the real bus", askPreflight},
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
	for _, q := range questions {
		a := Answer{Question: q.name}
		if q.ask(ctx, s, &a); ctx.Err() != nil {
			a.NotAsked = "the time was over"
		}
		answers = append(answers, a)
	}
	return answers, nil
}

// Table writes the answers as a table of Markdown. It returns whether one differs.
func Table(w io.Writer, answers []Answer) (different bool, err error) {
	cell := strings.NewReplacer("\n", " ", "|", `\|`) // texts may come from the driver
	_, err = fmt.Fprintln(w, "| result | asked | answer | compared with, or what differs, or why not asked |\n|---|---|---|---|")
	for _, a := range answers {
		words := cmp.Or(a.NotAsked, strings.Join(a.Differences, "; "), a.Compared)
		_, failed := fmt.Fprintf(w, "| %s | %s | %s | %s |\n", a.Result(), a.Question, cell.Replace(a.Answer), cell.Replace(words))
		different, err = different || len(a.Differences) > 0, errors.Join(err, failed)
	}
	return different, err
}
