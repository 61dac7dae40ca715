package node

import (
	"context"
	"crypto/x509"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node/daemons"
	"github.com/driver-container/driver-container/node/devices"
	"github.com/driver-container/driver-container/node/lock"
	"github.com/driver-container/driver-container/node/preflight"
	"github.com/driver-container/driver-container/node/probe"
)

// Machine is what the phases stand on. Package node/host has the real one.
type Machine struct {
	Info        driverinfo.Description // what the image says of its driver
	Release     string                 // of the running kernel
	HostStorage bool                   // Config.StateDir is storage of the host
	Kernel      Kernel
	Roots       Roots
	Supplier    Supplier
	Starter     DaemonStarter
	Hardware    Hardware
	Locker      Locker
}

// Kernel is what the phases ask of the kernel's modules. Names are those of /proc/modules.
type Kernel interface {
	Module(name string) (kmod.Module, error)
	Stack(name string) ([]kmod.Module, error)
	Flavour() (string, error) // of the nvidia module that is loaded
	Params(name string) (map[string]string, error)
	Insert(ctx context.Context, path string, params []string) error
	InsertInTree(ctx context.Context, names ...string) (inserted []string, err error)
	Delete(ctx context.Context, name string) error
	Holders(ctx context.Context, except func(pid int) bool) ([]kmod.Holder, error)
}

// Roots is the driver root. It has one layer, or none.
type Roots interface {
	Stage(ctx context.Context) (dir string, err error) // dir: on the host's storage; "": the image itself is bound
	AddModules(ctx context.Context, files []kbuild.File) error
	Mount(ctx context.Context) error
	MountOld(ctx context.Context, dir string) error // serves the staged root of another driver again; an error when dir is "" or gone
	Unmount(ctx context.Context) error              // every layer, also those of others
	Mounted() (layers int, err error)
	Adopt(ctx context.Context) (bool, string) // renews what a dead container left behind, if the one layer is of our driver
	Firmware() (undo func() error, err error)
	Prune(ctx context.Context) error // staged roots that are not served any more
}

// Supplier gets module files.
type Supplier interface {
	// Find finds modules of the image or the cache. source is where it found them, or where it found damaged
	// ones. The error is kbuild.ErrMiss where there are none, with a *kbuild.CorruptError where they are
	// damaged.
	Find(ctx context.Context, w Want) (set *kbuild.Set, source string, err error)
	Compile(ctx context.Context, w Want) (*kbuild.Set, error)
	// Signer is the owner of the key that will sign the set before it is loaded, or what will be compiled where
	// set is nil. With nil the set stays as it is.
	Signer(set *kbuild.Set, source string) *x509.Certificate
	Sign(ctx context.Context, set *kbuild.Set) (*kbuild.Set, error)
	Keep(ctx context.Context, set *kbuild.Set) (*kbuild.Set, error) // in the cache, after it has been loaded
}

// DaemonStarter starts the daemons that this machine needs.
type DaemonStarter interface {
	Start(ctx context.Context) (Daemons, error)
}

// Daemons are daemons that were started, as *daemons.Supervisor.
type Daemons interface {
	States() []daemons.State
	Changed() <-chan struct{}
	PIDs() []int
	Stop(ctx context.Context) error
}

// Hardware is the rest of the machine: the PCI bus, device files, the driver's own answer, and hooks of the
// host's package manager.
type Hardware interface {
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
	WriteKernelHook() error      // the hook that compiles the modules when the host installs a kernel
	RemoveKernelHook() error
}

// Locker takes the node's lock.
type Locker interface {
	// Acquire waits for the lock, and calls waits now and then while another instance holds it.
	Acquire(ctx context.Context, waits func(lock.Holder)) (Lock, error)
}

// Lock is the node's lock while it is held, as *lock.Lock.
type Lock interface {
	Release() error
	Lost() error   // somebody removed or replaced the lock's files
	Retake() error // recreates them; an error when somebody else holds them now
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
	SignWith *x509.Certificate // owner of the key that will sign the modules before they are loaded; nil: they stay as they are
	Damaged  string            // what was found damaged while looking for modules
	RDMA     bool
}
