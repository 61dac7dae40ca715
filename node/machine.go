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
	"github.com/driver-container/driver-container/node/modules"
	"github.com/driver-container/driver-container/node/preflight"
	"github.com/driver-container/driver-container/node/probe"
)

// Machine is the machine as the phases see it. Package node/host has the real one.
type Machine struct {
	Info        driverinfo.Description // the image's description of its driver
	Release     string                 // of the running kernel
	HostStorage bool                   // config.Config.StateDir is storage of the host
	Warnings    []string               // of what is wrong with it, and no reason not to start
	Kernel      Kernel
	Roots       Roots
	Supplier    Supplier
	Hardware    Hardware
	// StartDaemons starts the daemons that this machine needs.
	StartDaemons func(ctx context.Context) (Daemons, error)
	// TakeLock waits for the node's lock, and calls waits from time to time while another instance
	// holds it.
	TakeLock func(ctx context.Context, waits func(lock.Holder)) (Lock, error)
}

// Kernel has the operations on the kernel's modules that the phases need. Names are those of
// /proc/modules.
type Kernel interface {
	modules.Kernel
	Flavour() (string, error) // of the loaded nvidia module
	InsertInTree(
		ctx context.Context,
		record func(name string),
		names ...string,
	) (inserted []string, err error)
}

// Roots is the driver root, which has one layer or none. A root is named by its folder on the
// host's storage; "" is the image itself.
type Roots interface {
	// it removes no root that has a needed path or is in one
	Stage(ctx context.Context, needed []string) (dir string, err error)
	AddModules(ctx context.Context, dir string, files []kbuild.File) error
	SetOptions(dir string, options kmod.Options) error
	Mount(ctx context.Context, dir string) error // an error if something is mounted
	Unmount(ctx context.Context) error           // every layer, also those of others
	Mounted() (layers int, err error)
	// Adopt renews what a dead container left behind, if the only layer is of our driver. Otherwise
	// the error says why not.
	Adopt(ctx context.Context) (dir string, err error)
	Firmware() error // makes the kernel look for firmware in the root
	ClearFirmware() error
	// removes staged roots that are not served any more
	Prune(ctx context.Context, needed []string) error
}

// Supplier supplies module files.
type Supplier interface {
	// Find finds modules of the image or the cache. source is where it found them, or where it
	// found damaged ones. The error is kbuild.ErrMiss if there are none, joined with a
	// *kbuild.CorruptError if they are damaged.
	Find(ctx context.Context, w Want) (set *kbuild.Set, source string, err error)
	Compile(ctx context.Context, w Want, events CompileEvents) (*kbuild.Set, error)
	// Signer returns the certificate of the key that will sign the set before it is loaded, or, if
	// set is nil, the modules that will be compiled. If it returns nil, they stay as they are.
	Signer(set *kbuild.Set, source string) *x509.Certificate
	Sign(ctx context.Context, set *kbuild.Set) (*kbuild.Set, error)
	// Keep puts a set into the cache on the host. It removes no set that has a needed path or is in
	// one.
	Keep(ctx context.Context, set *kbuild.Set, needed []string) (*kbuild.Set, error)
}

// CompileEvents are called while the modules are compiled.
type CompileEvents struct {
	Waits func(reason string) // another container compiles; "": the instance does not wait any more
	Warn  func(format string, args ...any)
}

// Daemons are running daemons; *daemons.Supervisor implements it.
type Daemons interface {
	States() []daemons.State
	Changed() <-chan struct{}
	PIDs() []int
	Stop(ctx context.Context) error
}

// Hardware is the rest of the machine: the PCI bus, device files, and the driver's own answer.
type Hardware interface {
	GPUs() ([]devices.GPU, error)
	Mellanox() (bool, error)
	Options() (kmod.Options, error)
	// for a kernel
	Flavour(gpus []devices.GPU, release, requested string) (flavour, reason string, err error)
	// in has what fitness.input returns
	Preflight(ctx context.Context, in preflight.Input) []preflight.Check
	// what it is about to create
	CreateNodes(ctx context.Context, record func([]devices.Node)) error
	RemoveNodes(created []devices.Node) error
	Ask(ctx context.Context) (probe.Answer, error)
	AskUsage(ctx context.Context) (probe.Answer, error)
	// ends AskUsage, which has the driver open, and allows no further calls
	EndUsage()
	Reasons(gpu string) []string // returns what the kernel's log says about a GPU
	// returns what the kernel has logged since the last call; the first call returns nothing
	KernelLog() []string
}

// Lock is the node's lock while it is held; *lock.Lock implements it.
type Lock interface {
	Release() error
	Lost() error   // an error if another program removed or replaced the lock's files
	Retake() error // recreates them; an error if another program holds them now
}

// Want describes the modules that are needed: of which driver and for which kernel.
type Want struct {
	Driver, Flavour, Release string
	Modules                  []string // files, in the order of loading: nvidia, nvidia-uvm
	Optional                 []string // compiled if the sources have them
	// Companions are names of companions of the image (driverinfo.NvidiaFS). Those that cannot be
	// compiled against the flavour do not count; one that does not compile is in Set.Omitted.
	Companions []string
}
