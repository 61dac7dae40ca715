package probe

import (
	"context"
	"errors"
	"sync"
)

// Why AskUsage did not ask.
var (
	ErrBusy  = errors.New("another question to the driver is under way")
	ErrEnded = errors.New("the driver is being taken down: its GPUs are not asked any more")
)

// usage is the question of AskUsage that is under way, if any.
type usage struct {
	mu     sync.Mutex
	ended  bool
	cancel context.CancelFunc
	done   chan struct{} // closed when its child is gone, or left behind
}

// AskUsage is like Ask, with memory and utilisation of each GPU. It never waits for another question: ErrBusy. After EndUsage its error is
// ErrEnded. Who calls Ask meanwhile waits for it: give it a short timeout.
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

// begin takes p.mu.
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

// EndUsage ends the question of AskUsage that is under way, and lets none begin any more: a child that has the driver open is in the
// way of whoever unloads it. It returns when the child is gone, after 2 s at the latest when that hangs in the kernel.
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
