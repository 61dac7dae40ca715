package kbuild

import (
	"context"
	"errors"
	"time"
)

// oomKills returns how many processes of this container the kernel has killed for lack of memory; -1 when the
// kernel does not say.
//
// A killed compiler must never go unnoticed: NVIDIA's tests of the kernel's interfaces treat a failed
// compiler as a missing interface, hide its output, and go on. The resulting modules may even load.
func (l Limits) oomKills() int64 {
	for _, dir := range l.groups() {
		for _, name := range []string{"memory.events", "memory.oom_control"} {
			if n, ok := field(small(dir, name), "oom_kill"); ok {
				return int64(n)
			}
		}
	}
	return -1
}

// errOOMKill ends a compile after the kernel killed a part of it: the rest cannot be trusted.
var errOOMKill = errors.New("a part of the compile was killed")

// killEvery is the interval at which withOOMWatch reads the counter.
const killEvery = time.Second

// withOOMWatch returns a context that ends with errOOMKill when the kernel has killed more processes than
// before. Without it, NVIDIA's tests alone would go on for minutes. The caller must call end.
func (l Limits) withOOMWatch(ctx context.Context, before int64) (_ context.Context, end func()) {
	if before < 0 {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(killEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if l.oomKills() > before {
				cancel(errOOMKill)
			}
		}
	}()
	return ctx, func() { cancel(nil); <-done }
}
