package daemons

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// killTimeout is how long a process may take to disappear after SIGKILL.
const killTimeout = 2 * time.Second

// anyEnded returns a channel that gets a value or is closed when one of the processes ends. With several
// processes each has a goroutine, which also ends with quit.
func (p *process) anyEnded(quit <-chan struct{}) <-chan struct{} {
	if len(p.members) == 1 {
		return p.members[0].done
	}
	first := make(chan struct{}, len(p.members))
	for _, m := range p.members {
		go func() {
			select {
			case <-m.done:
				first <- struct{}{}
			case <-quit:
			case <-m.quit:
			}
		}()
	}
	return first
}

// endedHow says which process ended and how.
func (p *process) endedHow() string {
	for _, m := range p.members {
		if !m.gone() {
			continue
		}
		text := fmt.Sprintf("process %d: %s", m.pid, m.how)
		if lines := p.said(); len(lines) > 0 {
			text += ": " + lines[len(lines)-1]
		}
		return text
	}
	return ""
}

// terminate ends the remaining processes, each with its whole group: SIGTERM, then SIGKILL after wait or as
// soon as patience ends. The error names the processes that are still there afterwards.
func (p *process) terminate(patience context.Context, wait time.Duration) error {
	p.collect()
	all := func(s unix.Signal) {
		for _, m := range p.members {
			m.signal(s)
		}
	}
	all(unix.SIGTERM)
	all(unix.SIGCONT) // a stopped process would not handle SIGTERM
	if gone := p.waitGone(patience, wait); p.collect() || !gone {
		all(unix.SIGKILL)
		p.waitGone(context.WithoutCancel(patience), killTimeout)
	}
	var left []string
	for _, m := range p.members {
		if !m.gone() {
			left = append(left, fmt.Sprint(m.pid))
		}
		m.forget()
	}
	if p.out != nil {
		p.out.close()
	}
	if len(left) > 0 {
		return fmt.Errorf("process %s does not end after SIGKILL: it hangs in the kernel", strings.Join(left, ", "))
	}
	return nil
}

// collect adds processes of this start that are not known yet: helpers of the daemon and processes that were
// started meanwhile.
func (p *process) collect() (more bool) {
	if p.mark == "" {
		return false
	}
	found := strays(p.mark, p.since, p.members)
	p.members = append(p.members, found...)
	return len(found) > 0
}

func (p *process) waitGone(patience context.Context, wait time.Duration) bool {
	ctx, cancel := context.WithTimeout(patience, wait)
	defer cancel()
	return until(ctx, 10*time.Millisecond, func() error {
		if slices.ContainsFunc(p.members, func(m *member) bool { return !m.gone() }) {
			return errors.New("it still runs")
		}
		return nil
	}) == nil
}
