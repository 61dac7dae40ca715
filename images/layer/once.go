package layer

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/singleflight"
)

// errAbandoned means that work was stopped before its end because its caller was cancelled.
var errAbandoned = errors.New("abandoned")

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
