package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/osrelease"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/releases"
)

// chooser answers for machines. Machines that are alike are asked about once.
type chooser struct {
	matrix  *matrix.Matrix
	options Options
	targets map[string][]matrix.Target // by system and architecture, the best driver first
	known   map[string]answer          // by everything that decides
}

func newChooser(m *matrix.Matrix, o Options) (*chooser, error) {
	if _, err := m.Select(matrix.Selection{All: true, Drivers: o.Drivers, Flavours: o.Flavours}); err != nil {
		return nil, failure.Of(failure.Usage, err)
	}
	return &chooser{matrix: m, options: o, targets: map[string][]matrix.Target{}, known: map[string]answer{}}, nil
}

// answer says what a machine gets.
func (c *chooser) answer(n *Node) answer {
	switch g := n.GPUs; {
	case n.ID == "windows":
		return answer{code: OwnWay, reason: osrelease.OwnWay(n.ID)}
	case distros.ParseRelease(n.Kernel).Flavour == "tegra":
		return answer{code: Jetson, reason: "Jetson's system has the driver of its GPU, and no other one drives it"}
	case g.Presence == Absent && n.Fault == "":
		return answer{code: NoGPU, reason: "no GPU of NVIDIA"}
	case g.Presence == Unknown && n.Fault == "":
		return answer{code: GPUUnknown, reason: "whether it has a GPU is not known: it has no labels of node feature discovery"}
	case n.Fault != "":
		return answer{code: BadReport, reason: n.Fault}
	case g.Branch == "none":
		return answer{code: GPUUnsupported, reason: "no driver drives all of its GPUs, says its label nvidia.com/driver.branch=none"}
	case g.HostDriver:
		return answer{code: HostDriver, reason: "its system has a driver already (nvidia.com/gpu.deploy.driver=pre-installed)"}
	case g.Machines != "":
		return answer{code: ForMachines, reason: "its GPUs are for virtual machines (nvidia.com/gpu.workload.config=" + g.Machines + ")"}
	}
	key := fmt.Sprintf("%q", []any{n.ID, n.VersionID, n.OSImage, n.Arch, n.Kernel, n.GPUs.Devices, n.GPUs.Product, n.GPUs.Branch, n.GPUs.Modules, n.GPUs.VGPU})
	a, ok := c.known[key]
	if !ok {
		a = c.decide(n)
		c.known[key] = a
	}
	return a
}

// decide is answer for a machine with a GPU, by what it shares with others.
func (c *chooser) decide(n *Node) answer {
	system, no := c.system(n)
	if no.code != "" {
		return no
	}
	candidates := c.candidates(system.ID, n.Arch)
	if n.GPUs.VGPU {
		candidates = slices.DeleteFunc(slices.Clone(candidates), func(t matrix.Target) bool { return t.Driver.VGPU == "" })
		if len(candidates) == 0 {
			return answer{code: VGPUGuest, reason: "its GPU is a vGPU, which only a driver of NVIDIA vGPU drives: name one of the matrix with --driver"}
		}
	}
	if len(candidates) == 0 {
		return answer{code: NoDriver, reason: fmt.Sprintf("of the drivers that may be chosen, none%s is made for %s on %s", c.suffix(), system.ID, n.Arch)}
	}
	ask := needOf(n.GPUs)
	if ask.unknown != "" { // it is new, and so is its driver
		candidates = slices.SortedStableFunc(slices.Values(candidates), func(a, b matrix.Target) int { return releases.Compare(b.Driver.Version, a.Driver.Version) })
	}
	fitting := 0
	var gpuErr, kernelErr error
	for _, t := range candidates {
		flavours, err := ask.flavours(t)
		if err != nil {
			gpuErr = cmp.Or(gpuErr, err)
			continue
		}
		fitting++
		working, err := onKernel(t, n.Kernel, flavours)
		if err != nil {
			kernelErr = cmp.Or(kernelErr, err)
			continue
		}
		working = recipe.PreferredFlavours(working, t.Driver.Version)
		a := answer{
			target: t, flavours: working, restricted: len(working) < len(t.Driver.Flavours), unknown: ask.unknown, class: ask.class(), gpus: ask.String(),
		}
		if c.options.Precompiled {
			a.kernel = n.Kernel
		}
		return a
	}
	switch {
	case fitting > 0:
		return answer{code: KernelDrivers, reason: fmt.Sprintf("no driver for %s%s fits its GPU and compiles on kernel %s: %v", system.ID, c.suffix(), n.Kernel, kernelErr)}
	case ask.contradicts():
		return answer{code: GPUsDiffer, reason: fmt.Sprintf("no driver%s serves all of its GPUs (%s): %v", c.suffix(), ask, gpuErr)}
	}
	return answer{code: GPUUnsupported, reason: fmt.Sprintf("no driver for %s%s drives its GPU (%s): %v", system.ID, c.suffix(), ask, gpuErr)}
}

// suffix says in reasons which drivers were looked at.
func (c *chooser) suffix() string {
	if c.options.CUDA == nil {
		return ""
	}
	return " that runs CUDA " + c.options.CUDA.Version
}

// system finds the row of the matrix.
func (c *chooser) system(n *Node) (matrix.System, answer) {
	named := n.ID + n.VersionID
	for _, s := range c.matrix.Systems {
		if slices.Contains(s.Aliases, named) {
			return s, answer{}
		}
	}
	if why := osrelease.OwnWay(n.ID); why != "" {
		return matrix.System{}, answer{code: OwnWay, reason: why}
	}
	d, err := distros.FromIDs(n.ID, n.VersionID)
	if err != nil {
		text := strings.TrimSpace(n.ID + " " + n.VersionID)
		if n.ID == "" {
			text = fmt.Sprintf("%.80q", n.OSImage)
		}
		return matrix.System{}, answer{code: SystemUnknown, reason: fmt.Sprintf("its system %s is not known: %s", text, osrelease.Advice(n.ID, n.VersionID))}
	}
	for _, s := range c.matrix.Systems {
		if s.ID == d.ID() {
			return s, answer{}
		}
	}
	return matrix.System{}, answer{code: SystemUnknown, reason: fmt.Sprintf("the matrix has no system %s", d.ID())}
}

// candidates returns what may be built for a system, the best first.
func (c *chooser) candidates(system, arch string) []matrix.Target {
	key := system + " " + arch
	if found, ok := c.targets[key]; ok {
		return found
	}
	var found []matrix.Target
	if matrix.CheckArch(arch) == nil {
		// With All, Select leaves out what cannot be built.
		targets, err := c.matrix.Select(matrix.Selection{All: true, Systems: []string{system}, Archs: []string{arch}, Drivers: c.options.Drivers})
		if err == nil { // names were checked before
			found = targets
		}
	}
	found = slices.DeleteFunc(found, func(t matrix.Target) bool {
		// Whether a machine has a vGPU and a licence for it, its labels do not say.
		vgpu := t.Driver.VGPU != "" && !slices.Contains(c.options.Drivers, t.Driver.Version)
		old := c.options.CUDA != nil && batch.RunsCUDA(t.Driver, *c.options.CUDA).Support == releases.CUDANone
		return vgpu || old || len(c.allowed(t)) == 0
	})
	for i := range found {
		found[i].Flavours = c.allowed(found[i])
	}
	slices.SortStableFunc(found, func(a, b matrix.Target) int { return releases.Order(a.Driver, b.Driver, c.options.At) })
	c.targets[key] = found
	return found
}

// allowed returns the flavours of a driver that may be chosen.
func (c *chooser) allowed(t matrix.Target) []string {
	return slices.DeleteFunc(slices.Clone(t.Driver.Flavours), func(f string) bool { return !batch.Wanted(c.options.Flavours, f) })
}

// onKernel returns the flavours of a driver that compile on a kernel, as far as the matrix knows. The error
// is that of the first flavour if none does.
func onKernel(t matrix.Target, release string, flavours []string) (working []string, err error) {
	for _, f := range flavours {
		if no := recipe.CheckFlavours(t.Driver, distros.Kernel{Release: release}, []string{f}); no != nil {
			err = cmp.Or(err, no)
			continue
		}
		working = append(working, f)
	}
	if len(working) > 0 {
		return working, nil
	}
	return nil, err
}
