package layer_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/images/layer"
)

// TestGet: many callers, one question for each key; an error is an answer too.
func TestGet(t *testing.T) {
	t.Parallel()
	var m layer.Once[int]
	var asked atomic.Int32
	broken := errors.New("broken")
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			key, want := "good", error(nil)
			if i%2 == 1 {
				key, want = "bad", broken
			}
			n, err := m.Get(t.Context(), key, func() (int, error) { asked.Add(1); return 7, want })
			if n != 7 || !errors.Is(err, want) {
				t.Errorf("%s: %d, %v", key, n, err)
			}
		})
	}
	wg.Wait()
	assert.Equalf(t, int32(2), asked.Load(), "questions")
}

// TestDo: a value is asked for again, an error is not.
func TestDo(t *testing.T) {
	t.Parallel()
	var m layer.Once[int]
	asked, broken := 0, errors.New("broken")
	for range 2 {
		n, err := m.Do(t.Context(), "good", func() (int, error) { asked++; return asked, nil })
		assert.Equal(t, asked, n)
		assert.NoError(t, err)
	}
	for range 2 {
		assert.ErrorIs(t, assert.Err(m.Do(t.Context(), "bad", func() (int, error) { asked++; return 0, broken })), broken)
	}
	assert.Equal(t, 3, asked)
}

// TestCancelled: the caller that asks is cancelled, and one that waits for it asks again.
func TestCancelled(t *testing.T) {
	t.Parallel()
	var m layer.Once[int]
	first, cancel := context.WithCancel(t.Context())
	began, waiting := make(chan struct{}), make(chan error, 2)
	go func() {
		_, err := m.Get(first, "key", func() (int, error) { close(began); <-first.Done(); return 0, first.Err() })
		waiting <- err
	}()
	<-began
	impatient, stop := context.WithCancel(t.Context())
	stop()
	if _, err := m.Get(impatient, "key", func() (int, error) { return 1, nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that is cancelled waits: %v", err)
	}
	go func() {
		n, err := m.Get(t.Context(), "key", func() (int, error) { return 2, nil })
		if n != 2 {
			t.Errorf("the second caller got %d", n)
		}
		waiting <- err
	}()
	cancel()
	for range 2 {
		if err := <-waiting; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}
