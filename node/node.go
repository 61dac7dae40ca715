package node

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/modules"
	"github.com/driver-container/driver-container/node/probe"
	"github.com/driver-container/driver-container/node/status"
)

// Node is one running instance of the entrypoint. Make a new one for each run. What a run finds and
// puts up is in the values that its phases take and return, not here.
type Node struct {
	Machine
	Options
	cfg          config.Config
	instanceFile string // see status.InstanceFile; "": none
	markers      status.Markers
}

// Options are what an instance needs besides its machine.
type Options struct {
	Log    *slog.Logger  // required
	Status *status.Store // required; it is current also while no file has it: status.Snapshot.Holding
	Choice string        // see status.Snapshot
	// Served is called when the start is complete and the long wait begins: the memory of the start
	// can be freed. Run needs it, and Ended.
	Served func()
	// Ended is called when everything is taken down or left, just before others can take the node.
	// Anything that concerns the node as a whole has to be reported now: a moment later a successor
	// may report. It must be quick.
	Ended func()
	// Grace asks how long the pod may take to end, if config.Config.Grace does not say it; nil:
	// nobody knows. The answer comes within seconds.
	Grace func(ctx context.Context) (time.Duration, error)
	// Rechoose reports whether another driver would be chosen for the node now, and if not, why this
	// one is, as in Choice. It is asked each time that a node which is not fit is checked again; nil:
	// there is no other.
	Rechoose func(ctx context.Context) (choice string, other bool)
	// SafeLoad is asked before another driver is taken down; nil: no permission is needed.
	SafeLoad SafeLoad
}

// New returns an instance for a machine.
func New(cfg config.Config, m Machine, o Options) *Node {
	return &Node{
		Machine:      m,
		Options:      o,
		cfg:          cfg,
		instanceFile: status.InstanceFile,
		markers:      status.Markers{Run: cfg.Run, Digest: cfg.Digest},
	}
}

// saying returns the same instance with another log and status.
func (n *Node) saying(log *slog.Logger, st *status.Store) *Node {
	other := *n
	other.Log = log
	other.Status = st
	return &other
}

// AskUsage asks the driver for memory and utilisation of its GPUs while it serves, for metrics. The
// error is ErrNotReady if it serves no GPU.
func (n *Node) AskUsage(ctx context.Context) (probe.Answer, error) {
	st := n.Status.Get()
	none := probe.Answer{Devices: []probe.Device{}}
	if st.State != status.Serving && st.State != status.Degraded {
		return none, fmt.Errorf("%w: %s", status.ErrNotReady, st.State)
	}
	_, expected, lent := status.CountGPUs(st.GPUs)
	if expected == 0 && lent > 0 {
		return none, fmt.Errorf("%w to be asked: all GPUs are lent", status.ErrNotReady)
	}
	return n.Hardware.AskUsage(ctx)
}

// stack returns the kernel with the modules of a driver.
func (n *Node) stack() modules.Stack { return modules.Stack{Kernel: n.Kernel, Warn: n.warn} }

// group returns the companions of a driver.
func (n *Node) group(m ModuleSet) modules.Group {
	return modules.Group{
		Kernel:  n.Kernel,
		Wanted:  m.Want.Companions,
		Info:    m.Info,
		Flavour: m.Want.Flavour,
		Set:     m.Set,
		Options: m.Options,
		Toolkit: n.cfg.HasToolkit(),
	}
}

// warn logs a warning and keeps it in the status. A warning that the status has already is not
// repeated.
func (n *Node) warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if n.Status.Warn(text) {
		n.Log.Warn(text) //nolint:sloglint // the sentence is also in the status
	}
}

// tick is the pause between two checks of something that is in the way.
const tick = time.Second
