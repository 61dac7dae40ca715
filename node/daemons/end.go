package daemons

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// afterKill is how long a process may take to disappear after SIGKILL.
const afterKill = 2 * time.Second

// down is closed when one of the processes ends; with several that needs a goroutine, which ends with quit.
func (p *process) down(quit <-chan struct{}) <-chan struct{} {
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

// how says which process ended and how.
func (p *process) how() string {
	for _, m := range p.members {
		select {
		case <-m.done:
			text := fmt.Sprintf("process %d: %s", m.pid, m.how)
			if lines := p.out.last(); len(lines) > 0 {
				text += ": " + lines[len(lines)-1]
			}
			return text
		default:
		}
	}
	return ""
}

// terminate ends what is left: SIGTERM, SIGKILL after wait or as soon as patience ends, each to the whole group. The error
// names processes that are still there afterwards.
func (p *process) terminate(patience context.Context, wait time.Duration) error {
	p.collect()
	all := func(s unix.Signal) {
		for _, m := range p.members {
			m.signal(s)
		}
	}
	all(unix.SIGTERM)
	all(unix.SIGCONT) // a stopped process would not see it
	if gone := p.gone(patience, wait); p.collect() || !gone {
		all(unix.SIGKILL)
		p.gone(context.WithoutCancel(patience), afterKill)
	}
	var left []string
	for _, m := range p.members {
		select {
		case <-m.done:
		default:
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

// collect adds processes of this start that are not known yet: helpers of a daemon, and what was started meanwhile.
func (p *process) collect() (more bool) {
	if p.mark == "" {
		return false
	}
	found := strays(p.mark, p.since, p.members)
	p.members = append(p.members, found...)
	return len(found) > 0
}

func (p *process) gone(patience context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for _, m := range p.members {
		select {
		case <-m.done:
		case <-timer.C:
			return false
		case <-patience.Done():
			return false
		}
	}
	return true
}
