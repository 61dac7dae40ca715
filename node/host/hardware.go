package host

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/lazyregexp"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/kmod/kmsg"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/devices"
	"github.com/driver-container/driver-container/node/fabric"
	"github.com/driver-container/driver-container/node/modules"
	"github.com/driver-container/driver-container/node/preflight"
	"github.com/driver-container/driver-container/node/probe"
	"github.com/driver-container/driver-container/node/vgpu"
)

const supportedGPUs = "/usr/share/nvidia-driver/supported-gpus.json"

// hardware is the real hardware.
type hardware struct {
	cfg     config.Config
	info    driverinfo.Description
	supply  *supply
	prober  probe.Prober
	staging func() (need, spare preflight.Space) // of the driver root, see driverroot.Root.Room

	supported func() (preflight.Supported, error) // returns the image's list, read once

	mu     sync.Mutex
	mark   *kmsg.Mark // position in the kernel's log at which the driver was last asked
	log    *kmsg.Mark // position of KernelLog; nil: not opened yet
	logged time.Time  // when KernelLog last read
}

// GPUs returns the GPUs on the bus.
func (*hardware) GPUs() ([]devices.GPU, error) { return devices.GPUs("/sys") }

func (h *hardware) Mellanox() (bool, error) {
	cards, err := devices.Functions(
		"/sys",
		func(f devices.Function) bool { return f.Vendor == devices.Mellanox },
	)
	return len(cards) > 0, err
}

func (h *hardware) Options() (kmod.Options, error) {
	options, err := kmod.ReadOptions(modprobeDirs, h.cfg.Drivers)
	if err != nil {
		return nil, err
	}
	gpus, err := h.GPUs()
	if err != nil {
		return nil, err
	}
	options.Default(
		"nvidia",
		fabric.Parameters(h.info.Driver, gpus, h.cfg.IMEX != fabric.IMEXOff)...)
	return options, nil
}

// modprobeDirs are the folders of modprobe.d(5), in its order.
var modprobeDirs = []string{
	"/usr/lib/modprobe.d",
	"/lib/modprobe.d",
	"/run/modprobe.d",
	"/etc/modprobe.d",
}

func (h *hardware) Flavour(
	gpus []devices.GPU,
	release, requested string,
) (flavour, reason string, err error) {
	supported, err := h.supported()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", "", err
	}
	return preflight.Flavour(
		h.info,
		preflight.RunningKernel("/proc", release),
		h.serves(release),
		supported,
		gpus,
		requested,
	)
}

// serves returns the flavours that this machine can load for a kernel: those of the image's
// modules, those that can be compiled, and those of modules in mounted images and in the cache.
func (h *hardware) serves(release string) (flavours []string) {
	precompiled := h.info.Serves(release)
	for _, f := range h.info.Flavours {
		if slices.Contains(precompiled, f) || h.canCompile(f) || h.supply.cached(f, release) {
			flavours = append(flavours, f)
		}
	}
	return flavours
}

// Preflight runs all checks of this machine. It looks for headers and compiler only when there is
// something to compile.
func (h *hardware) Preflight(ctx context.Context, in preflight.Input) []preflight.Check {
	in.RunDir = h.cfg.Run
	in.StateDir = h.cfg.StateDir
	in.Info = h.info
	in.FetchHeaders = h.cfg.Fetch
	in.UnloadNouveau = h.cfg.UnloadNouveau
	in.CanCompile = h.canCompile(in.Flavour)
	in.Serves = h.serves(in.Release)
	in.LeftAlone = h.supply.leftAlone
	in.Supported, in.SupportedErr = h.supported()
	in.Fabric = h.fabric(in.GPUs)
	in.Staging = h.staging
	in.VGPU = func() (text, fix string, fatal bool) { return vgpu.Facts{Drivers: h.cfg.Drivers}.Check(h.info.VGPU) }
	if loaded, err := (kmod.System{}).Loaded(); err == nil {
		in.Modules = loaded
	}
	in.Toolkit = h.cfg.Toolkit
	in.ToolkitMissing = h.cfg.ToolkitMissing
	if !in.HaveModules && in.CanCompile && !h.cfg.HasToolkit() {
		h.toolchain(ctx, &in)
	}
	return skipChecks(preflight.Run(ctx, in), h.cfg.SkipPreflight)
}

// fabric compares the image with what the machine's NVLink switches need.
func (h *hardware) fabric(gpus []devices.GPU) func(fabric.Kernel) (text, fix string, fatal bool) {
	facts := fabricFacts(h.cfg)
	host := fabric.Host{Managed: h.cfg.Fabric == fabric.Auto}
	return func(k fabric.Kernel) (text, fix string, fatal bool) {
		facts.Machine, host.Err = fabric.Detect("/sys", gpus)
		return facts.Check(host, k)
	}
}

// skipChecks turns those blocking checks into warnings that the operator of the node has named.
func skipChecks(checks []preflight.Check, names []string) []preflight.Check {
	for i, c := range checks {
		if c.Status == preflight.Blocked && slices.Contains(names, c.Name) {
			checks[i].Status = preflight.Warning
		}
	}
	return checks
}

func (h *hardware) canCompile(flavour string) bool {
	_, err := os.Stat(modules.Sources(h.info.Driver, flavour))
	return err == nil && !h.cfg.NoCompile && (h.info.Toolchain || h.cfg.HasToolkit())
}

func (h *hardware) toolchain(ctx context.Context, in *preflight.Input) {
	found, err := h.supply.headers(in.Release)
	if err != nil {
		in.HeadersErr = err
		return
	}
	in.Headers = found.Origin + ": " + found.Build
	cc, err := kbuild.FindCompiler(ctx, found, os.Getenv("PATH"))
	if err != nil {
		in.CompilerErr = err
		return
	}
	in.Compiler = cc.Version + " (" + cc.Path + ")"
	if cc.Mismatch {
		in.WantedGCC = cc.Wanted
	}
}

var realNodes = devices.Nodes{Dev: "/dev", Proc: "/proc", Sys: "/sys"}

func (h *hardware) CreateNodes(ctx context.Context, record func([]devices.Node)) error {
	return realNodes.Create(ctx, record)
}

// RemoveNodes also removes NVIDIA's device files that no record names: no driver is loaded. It
// leaves them to an administrator who manages them (NVreg_ModifyDeviceFiles=0).
func (h *hardware) RemoveNodes(created []devices.Node) error {
	options, err := h.Options()
	if err == nil && !slices.Contains(options.For("nvidia"), "NVreg_ModifyDeviceFiles=0") {
		created = devices.Union(created, realNodes.Orphans())
	}
	return realNodes.Remove(created)
}

// Ask starts a child that asks the driver. The mark in the kernel's log is set first: when a GPU
// does not come up, the lines after the mark are the reason.
func (h *hardware) Ask(ctx context.Context) (probe.Answer, error) {
	mark, err := kmsg.Open("")
	if err == nil {
		h.mu.Lock()
		if h.mark != nil {
			_ = h.mark.Close()
		}
		h.mark = mark
		h.mu.Unlock()
	}
	return h.prober.Ask(ctx, probe.Options{})
}

// AskUsage gives the child little time: a scrape of the metrics waits for it.
func (h *hardware) AskUsage(ctx context.Context) (probe.Answer, error) {
	return h.prober.AskUsage(ctx, probe.Options{Timeout: 10 * time.Second})
}

func (h *hardware) EndUsage() { h.prober.EndUsage() }

// Reasons returns the last lines of the kernel's log about a GPU since the driver was last asked,
// at most three.
func (h *hardware) Reasons(gpu string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mark == nil {
		return nil
	}
	return linesAbout(gpu, h.mark.Lines())
}

// pciAddress matches a device in the kernel's log; some messages leave the domain out, and an Xid
// the function: "NVRM: Xid (PCI:0000:00:09): 143".
var pciAddress = lazyregexp.New(
	`[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]|PCI:[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}`,
)

// linesAbout returns the lines that name a GPU, or if there are none, the driver's lines that name
// no other GPU: the last three different ones.
func linesAbout(gpu string, lines []string) []string {
	const most = 3
	_, short, _ := strings.Cut(gpu, ":")
	device, _, _ := strings.Cut(gpu, ".")
	var named, general []string
	for _, line := range lines {
		line = strings.TrimSpace(line)
		last := func(list []string) []string {
			list = slices.DeleteFunc(list, func(other string) bool { return other == line })
			return append(list, line)
		}
		switch {
		case strings.Contains(line, "direct-loading firmware"): // Debian's kernel logs this without any problem
		case strings.Contains(line, short), strings.Contains(line, "PCI:"+device):
			named = last(named)
		case strings.Contains(line, "NVRM") && !pciAddress().MatchString(line):
			general = last(general)
		}
	}
	if len(named) == 0 {
		named = general
	}
	return named[max(0, len(named)-most):]
}

// logEvery is the pause between two reads of the log where each read copies all of it: in a
// container that may not open /dev/kmsg.
const logEvery = 30 * time.Second

// KernelLog returns the kernel's lines since the last call. The first call, which opens the log,
// and a container that may not read it get none.
func (h *hardware) KernelLog() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if (h.log == nil || h.log.Copies()) && time.Since(h.logged) < logEvery {
		return nil
	}
	h.logged = time.Now()
	if h.log == nil {
		mark, err := kmsg.Open("")
		if err != nil {
			return nil
		}
		h.log = mark
		return nil
	}
	return h.log.Next()
}
