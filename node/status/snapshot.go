package status

import (
	"slices"
	"time"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/daemons"
	"github.com/driver-container/driver-container/node/devices"
)

// State is the state of a driver. docs/operate.md explains each state and what to do.
type State string

// States, in the order of a life. An instance may stay in serving, degraded or a waiting state for
// long; after its end the file has one of detached, restored and failed, or is removed (absent).
const (
	// for the lock, a driver in use that must go first, a fit node, or a Driver Toolkit
	Waiting  State = "waiting"
	Starting State = "starting" // in the phase that Snapshot.Phase names
	Serving  State = "serving"  // ready
	// everything is up, but something that must work does not: not ready
	Degraded State = "degraded"
	Stopping State = "stopping" // taking down, or waiting for holders
	Detached State = "detached" // left in place, in use, without a process: a successor adopts it
	// a newer driver failed to load, the older one was put back; without a process
	Restored State = "restored"
	Absent   State = "absent" // nothing is loaded or mounted
	Failed   State = "failed" // a start failed; everything that it had put up is removed
)

// States returns all states.
func States() []State {
	return []State{
		Waiting,
		Starting,
		Serving,
		Degraded,
		Stopping,
		Detached,
		Restored,
		Absent,
		Failed,
	}
}

// Values of Snapshot.WaitsFor in state waiting.
const (
	ForLock      = "lock"      // another instance holds the node's lock
	ForHolders   = "holders"   // the driver that must be replaced is in use
	ForSafeLoad  = "clearance" // safe load: the node must be freed first
	ForPreflight = "preflight" // a check before the start found the node unfit
	ForToolkit   = "toolkit"   // the Driver Toolkit container of the pod compiles
)

// SafeLoadAnnotation marks a node whose driver waits ForSafeLoad, until the node is free of GPU
// users. Its value is the name of the driver's pod. The driver continues when the annotation is
// removed, by the GPU Operator's upgrade controller (k8s-operator-libs,
// safe_driver_load_manager.go), or by driver-evict without an operator.
const SafeLoadAnnotation = "nvidia.com/gpu-driver-upgrade.driver-wait-for-safe-load"

// Where the modules of a driver come from (Driver.Source).
const (
	FromImage   = "image"
	FromMounted = "mounted" // an image of modules that is mounted beside this one
	FromCache   = "cache"
	Compiled    = "compiled" // by the instance that loaded them
	Adopted     = "adopted"  // another program loaded them, and they are the same build
	// the node's own system loads them, as config.ModulesHost says: a stop leaves them
	FromHost = "host"
)

// Schema is increased when the meaning of a field changes.
const Schema = 1

// Snapshot is the known state of the driver on this node at one moment. The latest one is stored in
// /run/nvidia/driver-status.json: for people, for probes, and for the next instance, which has to
// know what its predecessor put up. It does not outlive a boot.
type Snapshot struct {
	Schema int `json:"schema"` // version of this format
	// the boot that it is about: /proc/sys/kernel/random/boot_id
	BootID string `json:"bootID"`
	State  State  `json:"state"`            // see docs/operate.md
	Ready  bool   `json:"ready"`            // whether the driver serves this node
	Reason string `json:"reason,omitempty"` // why the driver is not ready
	// in state waiting: lock, holders, clearance, preflight or toolkit
	WaitsFor string    `json:"waitsFor,omitempty"`
	Phase    string    `json:"phase,omitempty"` // of a start or stop that is not over
	Instance string    `json:"instance"`        // a name for this run of the container
	PID      int       `json:"pid"`             // its process on the node
	Pod      string    `json:"pod,omitempty"`   // name of its pod
	PodSpace string    `json:"podNamespace,omitempty"`
	PodUID   string    `json:"podUID,omitempty"`
	Image    string    `json:"image,omitempty"` // name of its image
	Started  time.Time `json:"started"`         // when the instance began
	Updated  time.Time `json:"updated"`         // when the status was last written
	Kernel   string    `json:"kernel"`          // the node's release
	Wanted   string    `json:"wanted"`          // version of the image's driver
	// why a baked driver serves in place of the image's own one, or why none does
	Choice   string   `json:"choice,omitempty"`
	Phases   []Timing `json:"phases,omitempty"`   // of the last start, with their durations
	Warnings []string `json:"warnings,omitempty"` // of this instance
	Counters Counters `json:"counters"`           // since the instance began
	// LastFailure is the last failed start of this boot, even if a later start succeeded.
	LastFailure *Failure `json:"lastFailure,omitempty"`

	// the driver that is loaded and served, of whichever version
	Up      *Driver         `json:"up,omitempty"`
	Daemons []daemons.State `json:"daemons,omitempty"` // the driver's daemons
	GPUs    []GPU           `json:"gpus,omitempty"`    // the node's NVIDIA GPUs
	// Companions are the modules beside the driver's own that were asked for, or that are loaded.
	Companions []Companion `json:"companions,omitempty"`
	// the processes that keep the driver in use, if they block the instance
	Holders []kmod.Holder `json:"holders,omitempty"`
}

// Holding reports whether the instance has the node's lock, or had it. Before that, a snapshot is
// about the instance alone: it contains nothing about the driver, and is in no file.
func (st Snapshot) Holding() bool { return st.State != "" && st.Phase != LockPhase }

// Counters count from the start of the instance.
type Counters struct {
	Compiled       int `json:"compiled"`       // compiles that succeeded
	CompilesFailed int `json:"compilesFailed"` // compiles that failed
	CacheHits      int `json:"cacheHits"`      // the modules were in the cache
	CacheMisses    int `json:"cacheMisses"`    // neither image nor cache had them
	// BlockedUnloads counts stops and replacements that found the driver in use, each once, however
	// long that lasted.
	BlockedUnloads int `json:"blockedUnloads"`
}

// Failure describes a start that failed.
type Failure struct {
	Time   time.Time `json:"time"`          // when it ended
	Wanted string    `json:"wanted"`        // version of the driver
	Pod    string    `json:"pod,omitempty"` // name of its pod
	Reason string    `json:"reason"`        // why it failed
}

// Timing is the duration of a phase.
type Timing struct {
	Phase   string  `json:"phase"`
	Seconds float64 `json:"seconds"`
}

// Driver is a driver that is up, with all data that a successor needs to adopt it, to take it down,
// or to put it back.
type Driver struct {
	Version string `json:"version"` // of the driver
	Flavour string `json:"flavour"` // open or proprietary
	// where the modules came from: image, mounted, cache, compiled
	Source string `json:"source"`
	// highest version of CUDA that it runs natively, as NVML reports it, else as its image says:
	// "12.2"
	CUDA string `json:"cuda,omitempty"`
	// owner of the key, and how: "ACME modules (sha256, key 1AAE…)"; empty: not signed
	Signer  string   `json:"signer,omitempty"`
	Modules []Module `json:"modules"` // that were loaded, in this order
	// modules of the kernel that were loaded for it
	InTree []string `json:"inTree,omitempty"`
	RootID string   `json:"rootID"` // what the driver root was made from
	// staged root on the host's storage; empty: the image itself was bound
	RootDir string         `json:"rootDir,omitempty"`
	Nodes   []devices.Node `json:"nodes,omitempty"` // device files that were made
	// this program has set the kernel's search path for firmware
	Firmware bool `json:"firmware"`
}

// reportCUDA records the version of CUDA that the driver itself reports; "" changes nothing.
func (st *Snapshot) reportCUDA(version string) {
	if st.Up == nil || version == "" {
		return
	}
	up := *st.Up
	up.CUDA = version
	st.Up = &up
}

// Module is a module with the parameters that it was loaded with.
type Module struct {
	Name       string   `json:"name"`              // as in /proc/modules
	Version    string   `json:"version,omitempty"` // of a companion: it is not the driver's
	SrcVersion string   `json:"srcVersion"`        // build of the module, as modinfo shows it
	File       string   `json:"file"`              // from which it was loaded
	SHA256     string   `json:"sha256"`            // of the file
	Params     []string `json:"params,omitempty"`  // name=value
}

// Named finds a module by its name.
func Named(modules []Module, name string) (m Module, found bool) {
	if i := slices.IndexFunc(modules, func(m Module) bool { return m.Name == name }); i >= 0 {
		return modules[i], true
	}
	return m, false
}

// Companion reports whether the module is none of the driver's own: the driver serves without it.
func (m Module) Companion() bool {
	return slices.ContainsFunc(
		driverinfo.Companions(),
		func(name string) bool { return kmod.ModuleName(name) == m.Name },
	)
}

// Companion is a kernel module beside the driver's own: nvidia-fs (GPUDirect Storage) or gdrdrv
// (GDRCopy). The driver is ready without it.
type Companion struct {
	Name       string `json:"name"`                 // nvidia-fs or gdrdrv
	Version    string `json:"version,omitempty"`    // of the loaded module
	SrcVersion string `json:"srcVersion,omitempty"` // build of the loaded module
	Loaded     bool   `json:"loaded"`               // whether the kernel has it
	Foreign    bool   `json:"foreign,omitempty"`    // another program loaded it
	Reason     string `json:"reason,omitempty"`     // why it is not as it was asked for
	InUse      bool   `json:"-"`                    // only its users are in the way of that
}

// Text describes the companion in a line.
func (c Companion) Text() string {
	text := c.Name + " is missing"
	switch {
	case c.Loaded && c.Foreign:
		text = c.Name + " " + c.Version + " of another program is loaded"
	case c.Loaded:
		text = c.Name + " " + c.Version + " is loaded"
	}
	if c.Reason != "" {
		text += ": " + c.Reason
	}
	return text
}
