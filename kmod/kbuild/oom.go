package kbuild

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"time"
)

// oomKills counts the processes of this container that the kernel has killed for want of memory; -1 when it does not say.
//
// A killed compiler must never go unnoticed: NVIDIA's tests of the kernel's interfaces take a compiler that fails for an
// interface that is missing, hide what it prints, and go on. The modules that come of it may even load.
func (l Limits) oomKills() int64 {
	for _, dir := range l.groups() {
		for _, name := range []string{"memory.events", "memory.oom_control"} {
			lines := bufio.NewScanner(bytes.NewReader(head(filepath.Join(dir, name), 4<<10)))
			for lines.Scan() {
				if fields := strings.Fields(lines.Text()); len(fields) == 2 && fields[0] == "oom_kill" {
					return int64(number(fields[1]))
				}
			}
		}
	}
	return -1
}

// errKill ends a compile of which the kernel has killed a part: whatever comes of the rest is not to be trusted.
var errKill = errors.New("a part of the compile was killed")

// killEvery is how often untilKill looks.
const killEvery = time.Second

// untilKill is a context that ends with errKill once the kernel has killed more processes than before: NVIDIA's tests alone would
// go on for minutes. end must be called.
func (l Limits) untilKill(ctx context.Context, before int64) (_ context.Context, end func()) {
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
				cancel(errKill)
			}
		}
	}()
	return ctx, func() { cancel(nil); <-done }
}
