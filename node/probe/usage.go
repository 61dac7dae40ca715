package probe

import (
	"context"
	"errors"
)

// Reasons why AskUsage did not ask.
var (
	ErrBusy  = errors.New("another question to the driver is under way")
	ErrEnded = errors.New("the driver is being taken down: its GPUs are not asked any more")
)

// AskUsage is like Ask and adds memory and utilisation of each GPU. It never waits for another query but
// returns ErrBusy; after EndUsage it returns ErrEnded. A concurrent call of Ask waits for AskUsage: give it a
// short timeout.
func (p *Prober) AskUsage(ctx context.Context, o Options) (Answer, error) {
	if !p.mu.TryLock() {
		return Answer{}, ErrBusy
	}
	defer p.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.usage.Lock()
	ended := p.ended
	p.cancel = cancel
	p.usage.Unlock()
	if ended {
		return Answer{}, ErrEnded
	}
	return p.ask(ctx, o, true)
}

// EndUsage ends the current query of AskUsage and prevents further ones, because a child that has the driver
// open blocks the driver's unloading. It returns when the child is gone, or after 2 s when the child hangs in
// the kernel; while Ask asks, when that is over.
func (p *Prober) EndUsage() {
	p.usage.Lock()
	p.ended = true
	cancel := p.cancel
	p.usage.Unlock()
	if cancel != nil {
		cancel()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
}
