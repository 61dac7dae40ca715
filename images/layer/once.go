package layer

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/singleflight"
)

// errAbandoned means that work was stopped before its end because its caller was cancelled.
var errAbandoned = errors.New("abandoned")

// Failures are layers that could not be made, by key, with the reason. Images that share such a layer fail
// with the same error, and its inputs are asked for once. nil keeps none.
type Failures struct{ all sync.Map }

// Of returns why a key failed; nil if it did not.
func (f *Failures) Of(key string) error {
	if f == nil {
		return nil
	}
	err, _ := f.all.Load(key)
	known, _ := err.(error)
	return known
}

// Add notes an error, unless the caller was stopped. It returns err.
func (f *Failures) Add(ctx context.Context, key string, err error) error {
	if f != nil && err != nil && ctx.Err() == nil {
		f.all.Store(key, err)
	}
	return err
}

// Once runs f, or waits for another caller that is running it under the same key. When that other caller is
// cancelled, this caller does not take its error but runs f itself.
func Once[T any](ctx context.Context, running *singleflight.Group, key string, f func() (T, error)) (T, error) {
	for {
		made, err, _ := running.Do(key, func() (any, error) {
			result, err := f()
			if err != nil && ctx.Err() != nil {
				err = errors.Join(errAbandoned, ctx.Err()) // whatever it was, it came from being stopped
			}
			return result, err
		})
		if errors.Is(err, errAbandoned) && ctx.Err() == nil {
			continue
		}
		result, ok := made.(T)
		if err == nil && !ok {
			err = fmt.Errorf("unexpected result %T", made)
		}
		return result, err
	}
}
