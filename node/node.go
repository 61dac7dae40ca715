package node

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node/daemons"
	"github.com/driver-container/driver-container/node/devices"
	"github.com/driver-container/driver-container/node/preflight"
	"github.com/driver-container/driver-container/node/probe"
)

// kernel is what the phases ask of the kernel's modules; kmod does it on a real one. Names are those of /proc/modules.
type kernel interface {
	Module(name string) (kmod.Module, error)
	Stack(name string) ([]kmod.Module, error)
	Flavour() (string, error) // of the nvidia module that is loaded
	Params(name string) (map[string]string, error)
	Insert(ctx context.Context, path string, params []string) error
	InsertInTree(ctx context.Context, names ...string) (inserted []string, err error)
	Delete(ctx context.Context, name string) error
	Holders(ctx context.Context, except func(pid int) bool) ([]kmod.Holder, error)
}

// roots is the driver root; node/driverroot does it with real mounts. A root is one layer, or none.
type roots interface {
	Stage(ctx context.Context) (dir string, err error) // dir: on the host's storage; "": the image itself is bound
	AddModules(ctx context.Context, files []kbuild.File) error
	Mount(ctx context.Context) error
	MountOld(ctx context.Context, dir string) error // serves the staged root of another driver again; an error when dir is "" or gone
	Unmount(ctx context.Context) error              // every layer, whoever's
	Mounted() (layers int, err error)
	Adopt(ctx context.Context) (bool, string) // renews what a dead container left behind, if the one layer is of our driver
	Firmware() (undo func() error, err error)
	Prune(ctx context.Context) error // staged roots that are not served any more
}

// supplier gets module files.
type supplier interface {
	Find(ctx context.Context, w Want) (set *kbuild.Set, source string, err error) // of the image or the cache; kbuild.ErrMiss
	Compile(ctx context.Context, w Want) (*kbuild.Set, error)
	// Signer is whose key is to sign the set before it is loaded, or what will be compiled where set is nil; nil: it stays as it is.
	Signer(set *kbuild.Set, source string) *x509.Certificate
	Sign(ctx context.Context, set *kbuild.Set) (*kbuild.Set, error)
	Keep(ctx context.Context, set *kbuild.Set) (*kbuild.Set, error) // in the cache, after it has been loaded
}

// children are the daemons.
type children interface {
	Start(ctx context.Context) (running, error)
}

// running are daemons that were started; *daemons.Supervisor is.
type running interface {
	States() []daemons.State
	Changed() <-chan struct{}
	PIDs() []int
	Stop(ctx context.Context) error
}

// hardware is the rest of the machine: the PCI bus, device files, and the driver's own answer.
type hardware interface {
	GPUs() ([]devices.GPU, error)
	Mellanox() (bool, error)
	Options() (kmod.Options, error)
	Flavour(gpus []devices.GPU, release, requested string) (flavour, reason string, err error) // for a kernel
	Preflight(ctx context.Context, q Question) []preflight.Check
	CreateNodes(ctx context.Context) (created []devices.Node, err error)
	RemoveNodes(created []devices.Node) error
	Ask(ctx context.Context) (probe.Answer, error)
	AskUsage(ctx context.Context) (probe.Answer, error)
	EndUsage()                   // ends AskUsage, which has the driver open, and lets none begin any more
	Reasons(gpu string) []string // what the kernel's log says of a GPU
}

// locker takes the node's lock; node/lock does.
type locker interface {
	Acquire(ctx context.Context) (held, error)
}

type held interface {
	Release() error
	Lost() error   // somebody removed or replaced the lock's files
	Retake() error // makes them anew; an error when somebody else holds them now
}

// Want is what modules to have: of which driver and for which kernel.
type Want struct {
	Driver, Flavour, Release string
	Modules                  []string // files, in the order of loading: nvidia, nvidia-uvm
	Optional                 []string // to compile where the sources have them
}

// Question is what preflight judges.
type Question struct {
	Want
	GPUs     []devices.GPU
	Previous string            // version of the driver that a predecessor of this program loaded; "" none
	Set      *kbuild.Set       // modules that are there; nil: they have to be compiled, unless Adopted
	Source   string            // of Set
	Adopted  bool              // the driver that is loaded stays
	SignWith *x509.Certificate // whose key will sign the modules before they are loaded; nil: they stay as they are
	Damaged  string            // what was found damaged while looking for modules
	RDMA     bool
}

// Node is one instance of the entrypoint at work. Make one for each run.
type Node struct {
	cfg     Config
	info    driverinfo.Info
	release string // of the running kernel
	say     func(format string, args ...any)
	now     func() time.Time
	rest    func() // the start is over: give back what it took
	last    func() // everything is taken down or left, others may have the node next

	kernel       kernel
	roots        roots
	supplier     supplier
	children     children
	hardware     hardware
	locker       locker
	markers      markers
	clearance    Clearance // nil: nobody is asked
	hook         kernelHook
	instanceFile string // see InstanceFile; "": none
	board        *board

	lock       held
	prev       *Driver // what a predecessor of this boot left, as far as its status says
	want       Want
	options    kmod.Options
	gpus       []devices.GPU
	found      *kbuild.Set
	source     string // of found
	fresh      bool   // found was compiled or signed here and is not in the cache
	damaged    string // what was found damaged while looking for modules
	adopted    bool   // what is loaded is what we would load
	staged     string // root on the host's storage
	driver     Driver // what is up now
	daemons    running
	daemonsErr error // why they could not be started
	up         []step
	restored   *RollbackError // set when an older driver was put back, or could not be
	lastSeen   string         // the last reason that the watch itself found
	blocked    bool           // this stop or replacement has found the driver in use
}

// step is something that is up: how to take it down, and how to put it up again when a later step of taking down is refused.
type step struct {
	name string
	down func(ctx context.Context) error // whole or not at all
	redo func(ctx context.Context) error // nil: it cannot be put back, what is below it has to go as well
}

// newInstance is a name that no other instance has: its probes know it by it.
func newInstance() string {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return fmt.Sprintf("pid-%d", os.Getpid())
	}
	return hex.EncodeToString(b[:])
}

// Run is a whole life: start, serve until ctx ends, stop. The stop runs under patience: when that ends, the stop waits for nobody any more,
// but a step that has begun is finished. The result nil means that the driver is stopped, or left in place as configured. Errors: ErrConfig,
// lock.ErrHeld, *preflight.BlockedError, *kbuild.NoHeadersError, *kbuild.CompileError, *kmod.RefusedError, *RollbackError, ErrLeft.
func (n *Node) Run(ctx, patience context.Context) error {
	if n.instanceFile != "" {
		if err := writeFile(n.instanceFile, []byte(n.board.st.Instance+"\n")); err != nil {
			return fmt.Errorf("write the name of this instance: %w", err)
		}
		end := make(chan struct{})
		defer close(end)
		go n.beat(end)
	}
	err := n.start(ctx)
	if n.lock == nil { // never had the node: there is nothing to take down
		if ctx.Err() != nil {
			n.say("stopped while waiting for the lock; nothing was touched")
			return nil
		}
		n.board.keep(func(st *Status) { st.State, st.Phase, st.Reason = Failed, lockPhase, err.Error() })
		n.lastWords(err)
		return err
	}
	if err == nil {
		err = n.serve(ctx)
	}
	if ctx.Err() != nil {
		err = ErrStopped // what a signal broke off is no failure
	}
	err = n.stop(patience, err)
	n.last()
	return errors.Join(err, n.lock.Release())
}
