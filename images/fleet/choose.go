package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/osrelease"
	"github.com/driver-container/driver-container/images/gpus"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/releases"
)

// chooser chooses drivers. Machines that are alike are asked about once.
type chooser struct {
	matrix  *matrix.Matrix
	options Options
	targets map[string][]matrix.Target // by system and architecture, the best driver first
	known   map[string]machine         // by everything that decides
	bests   map[string]string          // drivers, by GPUs
}

func newChooser(m *matrix.Matrix, o Options) *chooser {
	return &chooser{
		matrix:  m,
		options: o,
		targets: map[string][]matrix.Target{},
		known:   map[string]machine{},
		bests:   map[string]string{},
	}
}

// choose says what a machine gets.
func (c *chooser) choose(n *Node) *machine {
	m := &machine{Node: n}
	host, flavour := hostModules(n.Labels)
	m.host = host
	m.refuseUnsuited()
	if m.code == "" && !c.options.Managed {
		m.refuseManaged()
	}
	if m.code != "" {
		return m
	}
	g := n.GPUs
	key := fmt.Sprintf("%q", []any{
		n.ID, n.VersionID, n.OSImage, n.Arch, n.Kernel, g.Devices, g.Product, g.Branch, g.Modules, g.VGPU, g.Switches, instance(n.Labels), host, flavour,
	})
	if _, ok := c.known[key]; !ok {
		m.need = needOf(g)
		if host != "" {
			c.overHost(m, flavour)
		} else {
			c.decide(m)
		}
		c.known[key] = *m
	}
	*m = c.known[key]
	m.Node = n
	return m
}

// refuseUnsuited refuses a machine that no driver of the matrix is for, whatever drivers it has.
func (m *machine) refuseUnsuited() {
	g := m.GPUs
	kind := distros.ParseRelease(m.Kernel).Kind()
	fault := ""
	if m.Fault != "" {
		fault = "; " + m.Fault
	}
	// a Jetson's own GPU is in no list, but an IGX may have another one
	isDiscrete := func(device uint16) bool {
		_, ok := gpus.Lookup(device)
		return ok
	}
	switch {
	case m.ID == "windows":
		m.refuse(OwnWay, "%s", osrelease.OwnWay(m.ID))
	case m.virtual() != "":
		m.refuse(NoGPU, "a virtual node (%s): its pods run elsewhere, so it has no GPU of its own", m.virtual())
	case kind == distros.TegraKernel && !slices.ContainsFunc(g.Devices, isDiscrete):
		m.refuse(Jetson, "Jetson's system has the driver of its GPU, and no other one drives it")
	case g.Presence == Absent:
		m.refuse(NoGPU, "no GPU of NVIDIA%s", fault)
	case g.Presence == Unknown:
		m.refuse(GPUUnknown, "whether it has a GPU is not known: it has no labels of node feature discovery%s", fault)
	case m.Fault != "":
		m.refuse(BadReport, "%s", m.Fault)
	case g.Branch == "none":
		m.refuse(GPUUnsupported, "no driver drives all of its GPUs, say its labels (%s=none)", labelLast)
	case g.HostDriver:
		m.refuse(HostDriver, "its system has a driver already (%s=%s)", labelDeploy, preInstalled)
	case g.Machines != "":
		m.refuse(ForMachines, "its GPUs are for virtual machines (nvidia.com/gpu.workload.config=%s)", g.Machines)
	case kind == distros.WSLKernel:
		m.refuse(OwnWay, "its kernel %s is that of WSL, where the driver of Windows drives the GPU and no module is loaded: install it there", m.Kernel)
	case kind == distros.RealtimeKernel && m.host == "":
		m.refuse(KernelDrivers, "its kernel %s is a real-time kernel: NVIDIA does not support PREEMPT_RT, and a compile stops there: "+
			"boot a kernel without it", m.Kernel)
	}
}

// decide chooses for a machine with a GPU, by what it shares with others.
func (c *chooser) decide(m *machine) {
	system := c.system(m)
	if system == "" {
		return
	}
	candidates := c.suited(m, system)
	var why misfit
	for _, t := range m.ranked(candidates) {
		flavours := why.working(m, t)
		if len(flavours) == 0 {
			continue
		}
		named := slices.Contains(c.options.Drivers, t.Driver.Version)
		if len(m.lacks(t)) > 0 && !named {
			m.refuseFabric(t)
			return
		}
		c.assign(m, t, flavours)
		m.unusual = !m.usual(candidates)
		return
	}
	switch {
	case m.code != "":
	case why.kernel != nil:
		m.refuse(KernelDrivers, "no driver for %s%s fits its GPU and compiles on kernel %s: %v", system, c.runsCUDA(), m.Kernel, why.kernel)
	case m.need.contradicts():
		m.refuse(GPUsDiffer, "no driver%s serves all of its GPUs (%s): %v", c.runsCUDA(), m.need, why.gpu)
	default:
		m.refuse(GPUUnsupported, "no driver for %s%s drives its GPU (%s): %v", system, c.runsCUDA(), m.need, why.gpu)
	}
}

// suited returns the candidates for a machine, the best first; without any it refuses the machine.
func (c *chooser) suited(m *machine, system string) []matrix.Target {
	all := slices.Clone(c.candidates(system, m.Arch))
	if m.GPUs.VGPU {
		all = slices.DeleteFunc(all, func(t matrix.Target) bool { return t.Driver.VGPU == "" })
	}
	if m.need.unknown != "" { // the GPU is new, and so is its driver
		slices.SortStableFunc(all, func(a, b matrix.Target) int {
			return matrix.CompareVersions(b.Driver.Version, a.Driver.Version)
		})
	}
	switch {
	case len(all) > 0:
	case m.GPUs.VGPU:
		m.refuse(VGPUGuest, "its GPU is a vGPU, which only a driver of NVIDIA vGPU drives: name one of the matrix with --driver")
	default:
		arch := cmp.Or(m.Arch, "an unknown architecture")
		m.refuse(NoDriver, "of the drivers that may be chosen, none%s is made for %s on %s", c.runsCUDA(), system, arch)
	}
	return all
}

// runsCUDA says for reasons which drivers were looked at.
func (c *chooser) runsCUDA() string {
	if c.options.CUDA == nil {
		return ""
	}
	return " that runs CUDA " + c.options.CUDA.Version
}

// misfit is the first reason of each kind why drivers do not serve a machine. That of its GPUs
// counts if kernels are none: then no flavour fits.
type misfit struct{ gpu, kernel error }

// working returns the flavours of a driver that serve a machine, and notes why none does.
func (why *misfit) working(m *machine, t matrix.Target) (flavours []string) {
	var unfit error
	for _, flavour := range t.Flavours {
		err := m.need.check(t.Driver.Version, flavour)
		if err != nil {
			unfit = err
			continue
		}
		err = recipe.CheckFlavours(t.Driver, distros.Kernel{Release: m.Kernel}, []string{flavour})
		if err != nil {
			why.kernel = cmp.Or(why.kernel, err)
			continue
		}
		flavours = append(flavours, flavour)
	}
	if len(flavours) == 0 {
		why.gpu = cmp.Or(why.gpu, unfit)
	}
	return flavours
}

// assign gives a machine a driver, with the flavours that work there.
func (c *chooser) assign(m *machine, t matrix.Target, flavours []string) {
	m.target = t
	m.flavours = recipe.PreferredFlavours(flavours, t.Driver.Version)
	if c.options.Precompiled {
		m.kernel = m.Kernel
	}
	m.settings = t.Driver.Version + " " + t.System.ID + " " + m.kernel + " " + m.moduleType()
	m.class = m.settings + " " + m.need.class()
}

// usual reports whether a machine gets what its class alone would get: its kernel, and how new its
// GPUs are, change nothing.
func (m *machine) usual(candidates []matrix.Target) bool {
	typical := m.need.typical()
	for _, t := range candidates {
		if len(m.lacks(t)) > len(m.lacks(m.target)) {
			continue
		}
		drives := func(flavour string) bool { return typical.Check(t.Driver.Version, flavour) == nil }
		flavours := slices.DeleteFunc(slices.Clone(t.Flavours), func(f string) bool { return !drives(f) })
		if len(flavours) > 0 {
			return t.Driver.Version == m.target.Driver.Version && len(flavours) == len(m.flavours)
		}
	}
	return false
}

// system returns the system of the matrix that a machine has, or refuses the machine; it is ""
// then.
func (c *chooser) system(m *machine) string {
	for _, s := range c.matrix.Systems {
		if slices.Contains(s.Aliases, m.ID+m.VersionID) {
			return s.ID
		}
	}
	d, err := distros.FromIDs(m.ID, m.VersionID)
	switch why := osrelease.OwnWay(m.ID); {
	case why != "":
		m.refuse(OwnWay, "%s", why)
	case err != nil:
		text := strings.TrimSpace(m.ID + " " + m.VersionID)
		if m.ID == "" {
			text = fmt.Sprintf("%.80q", m.OSImage)
		}
		m.refuse(SystemUnknown, "its system %s is not known: %s", text, osrelease.Advice(m.ID, m.VersionID))
	case !slices.ContainsFunc(c.matrix.Systems, func(s matrix.System) bool { return s.ID == d.ID() }):
		m.refuse(SystemUnknown, "the matrix has no system %s", d.ID())
	default:
		return d.ID()
	}
	return ""
}

// candidates returns what may be built for a system, the best first, with the flavours that may be
// chosen.
func (c *chooser) candidates(system, arch string) []matrix.Target {
	key := system + " " + arch
	if _, ok := c.targets[key]; ok || matrix.CheckArch(arch) != nil {
		return c.targets[key]
	}
	// With All, Select leaves out what cannot be built; names were checked before.
	all, _ := c.matrix.Select(matrix.Selection{All: true, Systems: []string{system}, Archs: []string{arch}, Drivers: c.options.Drivers})
	var found []matrix.Target
	for _, t := range all {
		t.Flavours = slices.DeleteFunc(slices.Clone(t.Driver.Flavours), func(f string) bool {
			return len(c.options.Flavours) > 0 && !slices.Contains(c.options.Flavours, f)
		})
		// Whether a machine has a vGPU and a licence for it, its labels do not say.
		vgpu := t.Driver.VGPU != "" && !slices.Contains(c.options.Drivers, t.Driver.Version)
		old := c.options.CUDA != nil && c.options.CUDA.RunByDriver(t.Driver).Support == releases.CUDANone
		if !vgpu && !old && len(t.Flavours) > 0 {
			found = append(found, t)
		}
	}
	slices.SortStableFunc(found, func(a, b matrix.Target) int { return c.options.Advisor.Order(a.Driver, b.Driver) })
	c.targets[key] = found
	return found
}
