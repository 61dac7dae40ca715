// Package doctor asks what a build needs of this machine and of the network, one question after another. Each
// answer is a finding with what to do about it. It builds nothing, and downloads no layer and no package.
package doctor

import (
	"context"
	"strings"
	"sync"
	"time"
)

// State is how a question was answered.
type State string

// The states. Only a fault stops a build.
const (
	OK      State = "ok"
	Warning State = "warning" // some builds cannot work
	Fault   State = "fault"
	Skipped State = "skipped" // not asked; Detail says why
)

// Finding is the answer to a question.
type Finding struct {
	Question string `json:"question"`
	State    State  `json:"state"`
	Detail   string `json:"detail"`
	Fix      string `json:"fix,omitempty"`
}

// Question is something that a build needs.
type Question struct {
	Name     string
	Skip     string // why it is not asked; "": it is asked
	Fix      string // what to do if Ask returns an error
	Optional bool   // only some builds need it: an error is a warning

	// Ask returns what was found, in a few words. Its context ends when the time is up.
	Ask func(ctx context.Context) (detail string, err error)
}

// Ask asks all questions at the same time, and returns the findings in their order. No question takes longer
// than limit: one that hangs, as on a dead file system, is left to the end of the process.
func Ask(ctx context.Context, limit time.Duration, questions []Question) []Finding {
	found := make([]Finding, len(questions))
	var asked sync.WaitGroup
	for i, q := range questions {
		asked.Go(func() { found[i] = q.ask(ctx, limit) })
	}
	asked.Wait()
	return found
}

// Faults counts the findings that stop a build.
func Faults(all []Finding) (n int) {
	for _, f := range all {
		if f.State == Fault {
			n++
		}
	}
	return n
}

func (q *Question) ask(ctx context.Context, limit time.Duration) Finding {
	if q.Skip != "" {
		return Finding{Question: q.Name, State: Skipped, Detail: q.Skip}
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answer := make(chan Finding, 1)
	go func() { answer <- q.finding(q.Ask(ctx)) }()
	select {
	case f := <-answer:
		return f
	case <-ctx.Done():
		return q.fault("no answer within " + limit.String())
	}
}

func (q *Question) finding(detail string, err error) Finding {
	if err != nil {
		return q.fault(strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return Finding{Question: q.Name, State: OK, Detail: detail}
}

func (q *Question) fault(detail string) Finding {
	f := Finding{Question: q.Name, State: Fault, Detail: detail, Fix: q.Fix}
	if q.Optional {
		f.State = Warning
	}
	return f
}
