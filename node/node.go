package node

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/devices"
	"github.com/driver-container/driver-container/node/fabric"
	"github.com/driver-container/driver-container/node/modules"
	"github.com/driver-container/driver-container/node/probe"
	"github.com/driver-container/driver-container/node/status"
)

// Node is one running instance of the entrypoint. Make a new one for each run.
type Node struct {
	Machine
	cfg      config.Config
	log      *slog.Logger // during a phase of the start with its name
	now      func() time.Time
	served   func()                                           // see Options
	ended    func()                                           // the same
	safeLoad SafeLoad                                         // nil: no permission is needed
	askGrace func(ctx context.Context) (time.Duration, error) // see Options.Grace
	// see status.InstanceFile; "": none
	instanceFile string
	markers      status.Markers
	status       *status.Store

	lock       Lock
	prev       *status.Driver // what a predecessor of this boot left, according to its status
	gpus       []devices.GPU  // at the start
	watched    probe.Watch    // since then
	damaged    string         // damaged modules that were found in the search
	choice                    // of this image, except on the way back
	driver     status.Driver  // the driver that is up now
	replaced   status.Driver  // the driver that this instance has taken down
	daemons    Daemons
	daemonsErr error // why the daemons could not be started
	up         []step
	restored   *RollbackError // set if an older driver was restored, or could not be
	lastSeen   string         // the last reason that the watch itself found
	unmarked   bool           // the markers say that the driver is ready, and it is not
	blocked    bool           // this stop or replacement has found the driver in use

	asked atomic.Pointer[time.Time] // when the stop was asked for

	registration fabric.Registration // of the GPUs with their NVLink fabric
}

// choice is the driver that the phases of putUp put up.
type choice struct {
	info    driverinfo.Description // of its image
	want    Want
	options kmod.Options
	found   *kbuild.Set
	source  string  // of found
	fresh   bool    // found was compiled or signed here and is not in the cache yet
	loaded  verdict // what of the loaded driver stays
	record  status.Driver
}

// Options are what an instance needs besides its machine.
type Options struct {
	Log    *slog.Logger  // required
	Status *status.Store // required
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
	// SafeLoad is asked before another driver is taken down; nil: no permission is needed.
	SafeLoad SafeLoad
}

// New returns an instance for a machine.
func New(cfg config.Config, m Machine, o Options) *Node {
	return &Node{
		Machine: m, cfg: cfg, log: o.Log, now: time.Now, served: o.Served, ended: o.Ended,
		safeLoad: o.SafeLoad, askGrace: o.Grace, instanceFile: status.InstanceFile,
		markers: status.Markers{
			Run:    cfg.Run,
			Digest: cfg.Digest,
		}, status: o.Status, registration: fabric.Registration{Who: cfg.Fabric},
	}
}

// Snapshot returns the current status, also while the instance waits for the lock, when no file has
// it (status.Snapshot.Holding). Data that it points to does not change any more.
func (n *Node) Snapshot() status.Snapshot { return n.status.Get() }

// Changed returns a channel that has an element when Snapshot may return something new, see
// status.Store.Changed.
func (n *Node) Changed() <-chan struct{} { return n.status.Changed() }

// AskUsage asks the driver for memory and utilisation of its GPUs while it serves, for metrics. The
// error is ErrNotReady if it serves no GPU.
func (n *Node) AskUsage(ctx context.Context) (probe.Answer, error) {
	if st := n.status.Get(); st.State != status.Serving && st.State != status.Degraded {
		return probe.Answer{
				Devices: []probe.Device{},
			}, fmt.Errorf(
				"%w: %s",
				status.ErrNotReady,
				st.State,
			)
	}
	if _, expected, lent := status.CountGPUs(n.status.Get().GPUs); expected == 0 && lent > 0 {
		return probe.Answer{
				Devices: []probe.Device{},
			}, fmt.Errorf(
				"%w to be asked: all GPUs are lent",
				status.ErrNotReady,
			)
	}
	return n.Hardware.AskUsage(ctx)
}

// stack returns the kernel with the modules of a driver.
func (n *Node) stack() modules.Stack { return modules.Stack{Kernel: n.Kernel, Warn: n.warn} }

// warn logs a warning and keeps it in the status. A warning that the status has already is not
// repeated.
func (n *Node) warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if slices.Contains(n.status.Get().Warnings, text) {
		return
	}
	n.log.Warn(text) //nolint:sloglint // the sentence is also in the status
	n.status.Change(func(st *status.Snapshot) {
		const most = 50
		if len(st.Warnings) < most {
			st.Warnings = append(st.Warnings, text)
		}
	})
}

// tick is the pause between two checks of something that is in the way.
const tick = time.Second
