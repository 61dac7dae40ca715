package daemons

import (
	"fmt"
	"slices"
)

// findNeed finds the daemon that this one needs among those that were started before it.
func (d *daemon) findNeed(before []*daemon) error {
	if d.spec.Needs == "" {
		return nil
	}
	i := slices.IndexFunc(before, func(b *daemon) bool { return b.spec.Name == d.spec.Needs })
	if i < 0 {
		return fmt.Errorf("start %s: it needs %s, which is not started before it", d.spec.Name, d.spec.Needs)
	}
	d.needs = before[i]
	return nil
}

// attend waits until the process of the daemon has ended, the daemon has to be stopped (quit), or the daemon
// that it needs is not the one any more on which it was started.
func (d *daemon) attend(p *process) (reason string, quit bool) {
	for {
		var turned <-chan struct{}
		if d.needs != nil {
			var ups int
			var ready bool
			if ups, ready, turned = d.needs.readiness(); !ready || ups != d.on {
				return "it is started again after " + d.spec.Needs + ", which has ended", false
			}
		}
		select {
		case <-d.quit:
			return "", true
		case <-p.main.done:
			return p.endedHow(), false
		case <-turned:
		}
	}
}

// needIsReady reports whether the daemon can be started now, and notes on which start of the needed one.
func (d *daemon) needIsReady() bool {
	if d.needs == nil {
		return true
	}
	ups, ready, _ := d.needs.readiness()
	d.on = ups
	return ready
}

// awaitNeed waits until the daemon that this one needs is ready; false if this one has to be stopped.
func (d *daemon) awaitNeed() bool {
	for d.needs != nil {
		ups, ready, turned := d.needs.readiness()
		if ready {
			d.on = ups
			return true
		}
		select {
		case <-d.quit:
			return false
		case <-turned:
		}
	}
	return true
}

// readiness returns how often the daemon has become ready, whether it is, and a channel that is closed when
// that changes.
func (d *daemon) readiness() (ups int, ready bool, turned <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ups, d.state.Ready, d.turned
}

// turn tells those who wait for a change of readiness. The caller has locked mu.
func (d *daemon) turn() {
	close(d.turned)
	d.turned = make(chan struct{})
}
