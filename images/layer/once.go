package layer

import (
	"context"
	"sync"
)

// Once keeps the answer of each key for the length of one call, so that a question that many images
// have is asked once. The zero value is empty and ready; nil keeps nothing.
type Once[T any] struct {
	mu  sync.Mutex
	all map[string]*answer[T]
}

type answer[T any] struct {
	done  chan struct{} // closed when value and err are there
	value T
	err   error
	asked bool // false: the caller that asked was cancelled
}

// Get returns the answer of a key, which find finds. Callers that want the same at the same time
// wait for the first. An error is an answer too, except that of a caller whose context ended: the
// next caller asks again.
func (m *Once[T]) Get(ctx context.Context, key string, find func() (T, error)) (T, error) {
	if m == nil {
		return find()
	}
	for {
		m.mu.Lock()
		a, ok := m.all[key]
		if !ok {
			a = &answer[T]{done: make(chan struct{})}
			if m.all == nil {
				m.all = map[string]*answer[T]{}
			}
			m.all[key] = a
			m.mu.Unlock()
			m.ask(ctx, key, a, find)
			return a.value, a.err
		}
		m.mu.Unlock()
		select {
		case <-a.done:
		case <-ctx.Done():
			var none T
			return none, context.Cause(ctx)
		}
		if a.asked {
			return a.value, a.err
		}
	}
}

// Do is Get for an answer that can be found elsewhere afterwards: only an error is kept.
func (m *Once[T]) Do(ctx context.Context, key string, find func() (T, error)) (T, error) {
	value, err := m.Get(ctx, key, find)
	if err == nil {
		m.forget(key)
	}
	return value, err
}

func (m *Once[T]) forget(key string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, key)
}

// ask fills an answer. Also after a panic of find nobody waits for it.
func (m *Once[T]) ask(ctx context.Context, key string, a *answer[T], find func() (T, error)) {
	defer func() {
		if !a.asked {
			m.forget(key)
		}
		close(a.done)
	}()
	a.value, a.err = find()
	a.asked = a.err == nil || ctx.Err() == nil
}
