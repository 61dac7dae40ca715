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

// endedHow says how the process ended.
func (p *process) endedHow() string {
	text := fmt.Sprintf("process %d: %s", p.main.pid, p.main.how)
	if lines := p.lastLines(); len(lines) > 0 {
		text += ": " + lines[len(lines)-1]
	}
	return text
}

// terminate ends the remaining processes, each with its whole group: SIGTERM, then SIGKILL after
// wait or as soon as stopCtx ends. The error names the processes that are still there afterwards.
func (p *process) terminate(stopCtx context.Context, wait time.Duration) error {
	p.collect()
	all := func(s unix.Signal) {
		for _, m := range p.all() {
			m.signal(s)
		}
	}
	all(unix.SIGTERM)
	all(unix.SIGCONT) // a stopped process would not handle SIGTERM
	if gone := p.waitGone(stopCtx, wait); p.collect() || !gone {
		all(unix.SIGKILL)
		p.waitGone(context.WithoutCancel(stopCtx), killTimeout)
	}
	for _, m := range p.all() {
		m.unwatch()
	}
	if p.out != nil {
		p.out.close()
	}
	return p.remains()
}

// remains names the processes that are still there after SIGKILL.
func (p *process) remains() error {
	var left []string
	for _, m := range p.all() {
		if m.alive() {
			left = append(left, fmt.Sprint(m.pid))
		}
	}
	if len(left) == 0 {
		return nil
	}
	return fmt.Errorf("process %s does not end after SIGKILL: it hangs in the kernel",
		strings.Join(left, ", "))
}

// collect adds processes of this start that are not known yet: helpers of the daemon and processes
// that were started meanwhile.
func (p *process) collect() (more bool) {
	if p.mark == "" {
		return false
	}
	found := strays(p.mark, p.since, p.all())
	p.rest = append(p.rest, found...)
	return len(found) > 0
}

func (p *process) all() []*member { return append([]*member{p.main}, p.rest...) }

func (p *process) waitGone(stopCtx context.Context, wait time.Duration) bool {
	ctx, cancel := context.WithTimeout(stopCtx, wait)
	defer cancel()
	return Until(ctx, 10*time.Millisecond, func() error {
		if slices.ContainsFunc(p.all(), func(m *member) bool { return !m.gone() }) {
			return errors.New("it still runs")
		}
		return nil
	}) == nil
}
