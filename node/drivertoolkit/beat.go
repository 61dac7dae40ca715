package drivertoolkit

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// beatEvery is how often the toolkit container says that it lives.
const beatEvery = 2 * time.Second

// beats are the signs of life during a compile.
type beats struct {
	mu          sync.Mutex
	began       bool
	done, total int
	step        string
	compiler    string
	count       atomic.Int64
	finish      context.CancelFunc
	finished    chan struct{}
}

// beat begins to see whether the request is withdrawn, which ends the compile, and to give signs of life once
// the compile has begun.
func (b Builder) beat(f folder, run string, stop context.CancelCauseFunc) *beats {
	ctx, cancel := context.WithCancel(context.Background())
	s := &beats{finish: cancel, finished: make(chan struct{})}
	go func() {
		defer close(s.finished)
		var last time.Time
		for ctx.Err() == nil {
			if withdrawn(f, run) {
				stop(errOther)
				return
			}
			if now := time.Now(); now.Sub(last) >= min(10*b.Poll, beatEvery) {
				if a, began := s.answer(run); began {
					b.tell(f, a)
					last = now
				}
			}
			sleep(ctx, min(b.Poll, beatEvery))
		}
	}()
	return s
}

// begin says that the compile begins.
func (s *beats) begin(compiler string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began, s.compiler = true, compiler
}

// progress is kbuild.Job.Progress.
func (s *beats) progress(done, total int, step string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done, s.total, s.step = done, total, step
}

func (s *beats) answer(run string) (answer, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return answer{Schema: schema, Run: run, State: stateStarted, Beat: s.count.Add(1), Done: s.done, Total: s.total, Step: plain(s.step), Compiler: s.compiler}, s.began
}

// end stops the signs of life; after it none is written.
func (s *beats) end() {
	s.finish()
	<-s.finished
}
