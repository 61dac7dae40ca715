// Package config is the configuration of an instance: what flags, environment and the image say,
// with the documented defaults and a check. It reads no flags and no files.
package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/driver-container/driver-container/node/fabric"
	"github.com/driver-container/driver-container/node/vgpu"
)

// Values of Config.OnBusy: what to do if the driver is in use at a stop and stays so.
const (
	BusyDetach = "detach" // leave everything in place for a successor, exit code 0
	BusyFail   = "fail"   // the same, exit code 14
	BusyWait   = "wait"   // continue to wait, until a second signal or SIGKILL
)

// Values of Config.OnPreflight: what to do if a check before the start finds the node unfit.
const (
	PreflightExit = "exit" // end: exit code 11 or 13
	PreflightWait = "wait" // stay, not ready, and check again
)

// Values of Config.GPUInit: what a GPU that does not come up means.
const (
	GPURequire = "require" // not ready until it comes up
	GPUWarn    = "warn"    // ready, with a warning
)

// Values of Config.Modules: whose modules the driver has.
const (
	ModulesOwn  = "own"  // this container's: of the image, of the cache, or compiled
	ModulesHost = "host" // those that the node's own system loads
)

// Config is the configuration from flags, environment and the image. Paths are those inside of the
// container.
type Config struct {
	Pod, Image, Host     string // for messages and the lock's holder; may be empty
	PodNamespace, PodUID string // the same

	Run      string // folder shared with the host: /run/nvidia
	StateDir string // storage of the host, if mounted: /var/lib/nvidia-driver
	Drivers  string // folder with <module>.conf: /drivers
	// file from which Kubernetes reads the termination message: /dev/termination-log
	Termination string

	Modules       string   // ModulesOwn or ModulesHost
	ModuleImages  []string // roots of mounted images with modules
	ModuleType    string   // auto, open or proprietary
	DRM           bool     // load nvidia-drm too
	RDMA          bool     // load nvidia-peermem if there is a Mellanox device
	GDS           bool     // load nvidia-fs: GPUDirect Storage
	GDRCopy       bool     // load gdrdrv: GDRCopy
	UnloadNouveau bool     // unload nouveau if it is loaded and unused
	SkipPreflight []string // names of checks that must not block
	OnPreflight   string   // PreflightExit or PreflightWait
	MaxThreads    int      // of the compiler; 0: from the limits of the container
	NoCompile     bool     // never compile: modules of the image or the cache only
	Fetch         bool     // fetch headers from repositories if they are nowhere else

	// Toolkit is the folder that is shared with a Driver Toolkit container, which compiles; "":
	// there is none.
	Toolkit        string
	ToolkitTimeout time.Duration // within which that container has to begin
	// name of the toolkit's image that the cluster lacks, so that nothing is waited for; "": it is
	// there
	ToolkitMissing string

	// SigningKey is the file with the private key for modules that are compiled here; "": they stay
	// unsigned.
	SigningKey string
	// file with its certificate; "": it is in the key's file
	SigningCert           string
	SigningPassphraseFile string // file with the key's passphrase
	// returns the passphrase if no file has it; nil: there is none
	SigningPassphrase func() ([]byte, error)

	LockTimeout time.Duration // how long to wait for the node's lock
	// how long a stop may take; 0: some seconds less than the pod's grace period
	Grace       time.Duration
	OnBusy      string // BusyDetach, BusyFail or BusyWait
	GPUInit     string // GPURequire or GPUWarn
	Persistence bool   // run nvidia-persistenced if the image has it
	// DRIVER_CONFIG_DIGEST of the GPU Operator, kept for its driver manager
	Digest string
	// DRIVER_TYPE=vgpu, or the image says so: licence and topology daemons
	VGPU        bool
	VGPULicence string // vgpu.LicenceWarn or LicenceRequire

	Fabric string // fabric.Auto, fabric.External or fabric.Ignore
	// FABRIC_MODE of the fabric manager; "": as its configuration says
	FabricMode string
	// further settings of the fabric manager: NVFM_CONFIG_*, without that prefix
	FabricSettings map[string]string
	IMEX           string // fabric.IMEXOff, IMEXChannel or IMEXService
}

// Defaults returns the documented default values.
func Defaults() Config {
	return Config{
		Run: "/run/nvidia", StateDir: "/var/lib/nvidia-driver", Drivers: "/drivers", Termination: "/dev/termination-log",
		Modules: ModulesOwn, ModuleType: "auto", LockTimeout: 20 * time.Minute, ToolkitTimeout: 10 * time.Minute,
		OnBusy: BusyDetach, OnPreflight: PreflightExit, GPUInit: GPURequire, Persistence: true, Fetch: true, VGPULicence: vgpu.LicenceWarn, Fabric: fabric.Auto, IMEX: fabric.IMEXOff,
	}
}

// ErrConfig marks mistakes in flags, environment or mounted files that the operator of the node has
// to correct.
var ErrConfig = errors.New("bad configuration")

// Check returns an error for values that cannot be intended.
func (c Config) Check() error {
	var errs []error
	oneOf := func(flag, value string, allowed ...string) {
		if !slices.Contains(allowed, value) {
			errs = append(errs, fmt.Errorf("%s is %q; it must be one of %v", flag, value, allowed))
		}
	}
	oneOf("--modules (DRIVER_MODULES)", c.Modules, ModulesOwn, ModulesHost)
	oneOf("--kernel-module-type (KERNEL_MODULE_TYPE)", c.ModuleType, "auto", "open", "proprietary")
	oneOf("--on-busy (DRIVER_ON_BUSY)", c.OnBusy, BusyDetach, BusyFail, BusyWait)
	oneOf("--preflight-on-failure (DRIVER_PREFLIGHT_ON_FAILURE)", c.OnPreflight, PreflightExit, PreflightWait)
	oneOf("--gpu-init (DRIVER_GPU_INIT)", c.GPUInit, GPURequire, GPUWarn)
	oneOf("--vgpu-licence (DRIVER_VGPU_LICENCE)", c.VGPULicence, vgpu.LicenceWarn, vgpu.LicenceRequire)
	oneOf("--fabric (DRIVER_FABRIC)", c.Fabric, fabric.Auto, fabric.External, fabric.Ignore)
	oneOf("--fabric-mode (FABRIC_MODE)", c.FabricMode, "", fabric.ModeFull, fabric.ModeShared, fabric.ModeVGPU)
	oneOf("--imex (DRIVER_IMEX)", c.IMEX, fabric.IMEXOff, fabric.IMEXChannel, fabric.IMEXService)
	if c.MaxThreads < 0 {
		errs = append(errs, fmt.Errorf("--max-threads (MAX_THREADS) is %d; it must not be negative", c.MaxThreads))
	}
	if c.SigningKey == "" && (c.SigningCert != "" || c.SigningPassphraseFile != "") {
		errs = append(errs, errors.New("--module-signing-cert or --module-signing-passphrase-file is given without --module-signing-key"))
	}
	if c.LockTimeout <= 0 || c.Grace < 5*time.Second && c.Grace != 0 {
		errs = append(errs, fmt.Errorf("--lock-timeout is %s and --grace is %s; the first must be positive, the second at least 5s, or 0", c.LockTimeout, c.Grace))
	}
	if c.Toolkit != "" && (!filepath.IsAbs(c.Toolkit) || c.ToolkitTimeout <= 0) {
		errs = append(errs, fmt.Errorf("--toolkit-dir is %q and --toolkit-timeout is %s; the first must be an absolute path, the second positive", c.Toolkit, c.ToolkitTimeout))
	}
	for _, dir := range c.ModuleImages {
		if !filepath.IsAbs(dir) {
			errs = append(errs, fmt.Errorf("--module-image (DRIVER_MODULE_IMAGE) is %q; it must be the absolute path of a mounted image", dir))
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("%w: %w", ErrConfig, errors.Join(errs...))
	}
	return nil
}

// HasToolkit reports whether a Driver Toolkit container is to compile.
func (c Config) HasToolkit() bool { return c.Toolkit != "" && c.ToolkitMissing == "" }

// ByHost reports whether the node's own system brings the modules.
func (c Config) ByHost() bool { return c.Modules == ModulesHost }

// PodText returns the pod as NAMESPACE/NAME, or its name alone if the namespace is unknown; ""
// outside of a pod.
func (c Config) PodText() string {
	if c.Pod == "" || c.PodNamespace == "" {
		return c.Pod
	}
	return c.PodNamespace + "/" + c.Pod
}
