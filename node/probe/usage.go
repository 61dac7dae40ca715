package probe

import (
	"context"
	"errors"
	"sync"
)

// Reasons why AskUsage did not ask.
var (
	ErrBusy  = errors.New("another question to the driver is under way")
	ErrEnded = errors.New("the driver is being taken down: its GPUs are not asked any more")
)

// usageQuery is the current query of AskUsage, if there is one.
type usageQuery struct {
	mu     sync.Mutex
	ended  bool
	cancel context.CancelFunc
	done   chan struct{} // closed when the query's child is gone or left behind
}

// AskUsage is like Ask and adds memory and utilisation of each GPU. It never waits for another query but
// returns ErrBusy; after EndUsage it returns ErrEnded. A concurrent call of Ask waits for AskUsage: give it a
// short timeout.
func (p *Prober) AskUsage(ctx context.Context, o Options) (Answer, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done, err := p.begin(cancel)
	if err != nil {
		return Answer{Devices: []Device{}, Err: err.Error()}, err
	}
	defer func() {
		p.mu.Unlock()
		close(done)
	}()
	return p.ask(ctx, o, true)
}

// begin takes p.mu unless it returns an error.
func (p *Prober) begin(cancel context.CancelFunc) (chan struct{}, error) {
	p.usage.mu.Lock()
	defer p.usage.mu.Unlock()
	if p.usage.ended {
		return nil, ErrEnded
	}
	if !p.mu.TryLock() {
		return nil, ErrBusy
	}
	p.usage.cancel, p.usage.done = cancel, make(chan struct{})
	return p.usage.done, nil
}

// EndUsage ends the current query of AskUsage and prevents further ones, because a child that has the driver
// open blocks the driver's unloading. It returns when the child is gone, or after 2 s when the child hangs in
// the kernel.
func (p *Prober) EndUsage() {
	p.usage.mu.Lock()
	p.usage.ended = true
	cancel, done := p.usage.cancel, p.usage.done
	p.usage.mu.Unlock()
	if cancel != nil {
		cancel()
		<-done
	}
}
