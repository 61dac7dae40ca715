package headers

import (
	"bytes"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"
)

// watchMemory observes this process's resident memory; the returned function returns the maximum.
func watchMemory(t *testing.T) func() int64 {
	t.Helper()
	stop := make(chan struct{})
	var high int64
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			data, err := os.ReadFile("/proc/self/status")
			_, rest, ok := bytes.Cut(data, []byte("VmRSS:"))
			var kib int64
			if err != nil || !ok {
				continue
			}
			if _, err := fmt.Sscanf(string(rest), "%d kB", &kib); err == nil {
				high = max(high, kib<<10)
			}
		}
	})
	return func() int64 {
		close(stop)
		wg.Wait()
		return high
	}
}
