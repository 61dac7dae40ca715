package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/devices"
	"github.com/driver-container/driver-container/node/driverroot"
	"github.com/driver-container/driver-container/node/preflight"
)

// Program is the path of this program in an image.
const Program = "/usr/local/bin/driver-entrypoint"

// Choice is the driver that a start serves.
type Choice struct {
	Driver string // version of a baked driver; "": the image's own serves
	Reason string // why, for people; "" if there was nothing to choose from

	root  string // of the baked driver
	state string // the folder that has it
	host  bool   // this process is in no driver image
}

// Enter makes the chosen driver's root the root of this process, see driverroot.Enter.
func (c Choice) Enter() error { return driverroot.Enter(c.root, c.state, c.host) }

// Choose chooses the driver for the GPUs and the kernel of this machine. The driver of the image
// that this process is in serves if it drives the GPUs, whatever else was baked: it is what the
// administrator asked for. Otherwise the newest baked driver serves that drives all GPUs, and has
// modules for the kernel. Without an image, on the machine itself, only baked drivers count.
//
// Errors: config.ErrConfig, *preflight.BlockedError if there is no image and no baked driver fits.
func Choose(ctx context.Context, cfg config.Config, log *slog.Logger) (Choice, error) {
	release, err := kernelRelease()
	if err != nil {
		return Choice{}, err
	}
	gpus, err := devices.GPUs("/sys")
	if err != nil {
		return Choice{}, err
	}
	return chooser{cfg: cfg, image: "/", release: release, gpus: gpus, log: log}.choose(ctx)
}

// chooser has what a choice depends on.
type chooser struct {
	cfg     config.Config
	image   string // root of the image
	release string // of the kernel
	gpus    []devices.GPU
	log     *slog.Logger
}

func (c chooser) choose(ctx context.Context) (Choice, error) {
	own, err := c.candidate(c.image)
	choice := Choice{state: c.cfg.StateDir, host: errors.Is(err, fs.ErrNotExist)}
	if c.cfg.ByHost() || err != nil && !choice.host {
		return choice, nil // the start says why
	}
	why := "the machine has no driver image"
	if !choice.host {
		_, why = own.misses(ctx, preflight.OK, preflight.Skipped)
	}
	if why == "" {
		return choice, nil
	}
	index, err := readIndex(c.cfg.StateDir)
	if err != nil {
		choice.Reason = fmt.Sprintf("no baked driver is used: %v", err)
	}
	if len(index.Drivers) == 0 {
		return choice, nil
	}
	var refused []string
	for _, b := range newestFirst(index.Drivers) {
		baked, err := c.open(b)
		reason := ""
		switch {
		case err != nil:
			reason = err.Error()
		case !choice.host && b.VGPU != own.info.VGPU:
			reason = "it is a driver for virtual GPUs, or the image's is"
		default:
			reason = baked.unfit(ctx)
		}
		if reason == "" {
			choice.Driver = b.Driver
			choice.root = filepath.Join(c.cfg.StateDir, b.Root)
			choice.Reason = fmt.Sprintf("driver %s of %s serves: %s", b.Driver, c.cfg.StateDir, why)
			return choice, nil
		}
		refused = append(refused, fmt.Sprintf("driver %s for %s: %s", b.Driver, b.OS, reason))
	}
	choice.Reason = fmt.Sprintf("no baked driver fits kernel %s and %s: %s",
		c.release, c.names(), strings.Join(refused, "; "))
	if !choice.host {
		return choice, nil
	}
	return choice, &preflight.BlockedError{Checks: []preflight.Check{{
		Name: "baked", Status: preflight.Blocked, Finding: choice.Reason,
		Fix: "Bake a driver for these GPUs and this kernel into " + c.cfg.StateDir,
	}}}
}

func newestFirst(drivers []Baked) []Baked {
	drivers = slices.Clone(drivers)
	slices.SortStableFunc(drivers, func(a, b Baked) int {
		return distros.CompareReleases(b.Driver, a.Driver)
	})
	return drivers
}

func (c chooser) names() string {
	var names []string
	for _, g := range c.gpus {
		names = append(names, fmt.Sprintf("%s (%04x:%04x)", g.Address, g.Vendor, g.Device))
	}
	if len(names) == 0 {
		return "no GPU"
	}
	return strings.Join(names, ", ")
}

// candidate is a driver that could serve this machine.
type candidate struct {
	*hardware
	chooser
}

// candidate returns the driver of an image, or of a root that was made from one.
func (c chooser) candidate(root string) (candidate, error) {
	info, err := readInfo(root)
	if err != nil {
		return candidate{}, err
	}
	list, err := kmod.Within(root, supportedGPUs)
	supported := func() (preflight.Supported, error) { return preflight.ReadSupported(list) }
	if err != nil {
		supported = func() (preflight.Supported, error) { return preflight.Supported{}, err }
	}
	files := &supply{cfg: c.cfg, info: info, log: c.log, image: filepath.Join(root, imageModules)}
	found := &hardware{cfg: c.cfg, info: info, supply: files, supported: supported}
	return candidate{hardware: found, chooser: c}, nil
}

// open returns a baked driver, if its root is whole and what the index says.
func (c chooser) open(b Baked) (candidate, error) {
	if b.Arch != runtime.GOARCH {
		return candidate{}, fmt.Errorf("it is for %s", b.Arch)
	}
	state, err := os.OpenRoot(c.cfg.StateDir)
	if err != nil {
		return candidate{}, err
	}
	defer state.Close()
	executed := []string{filepath.Dir(b.Root), b.Root, filepath.Join(b.Root, Program)}
	for _, k := range b.Kernels {
		if k.Release == c.release && k.Folder != "" {
			executed = append(executed, modulesDir, k.Folder)
		}
	}
	err = guarded(state, executed...)
	if err != nil {
		return candidate{}, err
	}
	root := filepath.Join(c.cfg.StateDir, b.Root)
	err = driverroot.Check(root, b.Driver, b.ID)
	if err != nil {
		return candidate{}, fmt.Errorf("its root is damaged: %w", err)
	}
	found, err := c.candidate(root)
	if err != nil {
		return candidate{}, err
	}
	info := found.info
	if info.Driver != b.Driver || info.OS != b.OS || info.Arch != b.Arch || info.ID != b.ID {
		return candidate{}, fmt.Errorf("%s has driver %s for %s", root, info.Driver, info.OS)
	}
	return found, nil
}

// unfit returns why the driver cannot serve the machine with what is there; "" if it can.
func (c candidate) unfit(ctx context.Context) string {
	flavour, why := c.misses(ctx, preflight.OK)
	if why != "" {
		return why
	}
	wanted := node.Want{Driver: c.info.Driver, Flavour: flavour, Release: c.release}
	_, _, err := c.supply.Find(ctx, wanted)
	if err != nil {
		return fmt.Sprintf("no %s modules for kernel %s: %v", flavour, c.release, err)
	}
	return ""
}

// misses returns the flavour of the driver's modules for the GPUs, and which GPUs it does not
// drive: "" if the checks have one of these results.
func (c candidate) misses(
	ctx context.Context,
	accepted ...preflight.Status,
) (flavour, why string) {
	in := preflight.Input{
		Info:    c.info,
		Release: c.release,
		GPUs:    c.gpus,
		Serves:  c.serves(c.release),
	}
	in.Supported, in.SupportedErr = c.supported()
	flavour, _, err := c.Flavour(c.gpus, c.release, c.hardware.cfg.ModuleType)
	if err != nil {
		return "", err.Error()
	}
	in.Flavour = flavour
	for _, check := range preflight.RunGPUs(ctx, in) {
		if !slices.Contains(accepted, check.Status) {
			return flavour, check.Finding
		}
	}
	return flavour, ""
}
