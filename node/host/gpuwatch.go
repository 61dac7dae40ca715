package host

import (
	"sync"
	"time"

	"github.com/driver-container/driver-container/kmod/kmsg"
	"github.com/driver-container/driver-container/node/devices"
)

// gpuWatch looks at the machine's GPUs for package node.
type gpuWatch struct {
	mu     sync.Mutex
	log    *kmsg.Mark // nil: not opened yet
	logged time.Time  // when it was last read
}

// GPUs returns the GPUs on the bus.
func (*gpuWatch) GPUs() ([]devices.GPU, error) { return devices.GPUs("/sys") }

// logEvery is the pause between two reads of the log where each read copies all of it: in a container that
// may not open /dev/kmsg.
const logEvery = 30 * time.Second

// KernelLog returns the kernel's lines since the last call. The first call, which opens the log, and a
// container that may not read it get none.
func (w *gpuWatch) KernelLog() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	switch {
	case w.log == nil && !w.logged.IsZero() && now.Sub(w.logged) < logEvery:
		return nil
	case w.log == nil:
		w.logged = now
		if mark, err := kmsg.Open(""); err == nil {
			w.log = mark
		}
		return nil
	case w.log.Copies() && now.Sub(w.logged) < logEvery:
		return nil
	}
	w.logged = now
	return w.log.Next()
}
