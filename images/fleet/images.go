package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/images/gpus"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/releases"
	"github.com/driver-container/driver-container/images/status"
)

// tags returns the tags of the images that a machine needs.
func (c *chooser) tags(m *machine) []string {
	return slices.DeleteFunc([]string{m.tag(), m.setTag(c.options)}, isEmpty)
}

// image is the image of a tag for the machines that need it.
func (c *chooser) image(g group) NeededImage {
	first := g.nodes[0]
	d := first.target.Driver
	im := NeededImage{
		Tag:     g.key,
		System:  first.target.System.ID,
		Driver:  d.Version,
		CUDA:    releases.CUDAOf(d.Version, d.CUDA),
		Kernel:  first.kernel,
		Nodes:   g.nodes.names(),
		GPUs:    g.nodes.each(func(m *machine) string { return m.need.String() }),
		Kernels: g.nodes.each(func(m *machine) string { return m.Kernel }),
		Archs:   g.nodes.each(func(m *machine) string { return m.target.Arch }),
		modules: strings.HasSuffix(g.key, recipe.ModulesSuffix),
	}
	if im.modules {
		im.Kernel = first.Kernel
	}
	if c.options.CUDA != nil {
		im.RunsCUDA = string(c.options.CUDA.RunByDriver(d).Support)
	}
	for _, arch := range im.Archs {
		i := slices.IndexFunc(g.nodes, func(m *machine) bool { return m.target.Arch == arch })
		im.targets = append(im.targets, g.nodes[i].target)
	}
	if im.Kernel != "" {
		im.Flavours = g.nodes.flavours()
	}
	return im
}

// flavours returns those that modules for these machines are compiled in, nil if a build compiles
// them anyway.
func (all machines) flavours() []string {
	target := all[0].target
	target.Flavours = target.Driver.Flavours
	preferred := all.each(func(m *machine) string { return m.flavours[0] })
	preferred = recipe.PreferredFlavours(preferred, target.Driver.Version)
	if slices.Equal(preferred, recipe.CompiledFlavours(target, nil)) {
		return nil
	}
	return preferred
}

// task is the build of the image, without reason and arguments.
func (im *NeededImage) task() status.Task {
	t := status.Task{Tag: im.Tag, System: im.System, Driver: im.Driver, Archs: im.Archs}
	if im.Kernel != "" {
		t.Kernels = []string{im.Kernel}
	}
	return t
}

// Builds are the builds of all images, in their order.
func (r *Recommendation) Builds() (all []status.Task) {
	for i := range r.Images {
		all = append(all, r.Images[i].task())
	}
	return all
}

// Tasks are the builds that are due: of images that the registry lacks, or of all if it was not
// asked. arguments are flags that all of them have.
func (r *Recommendation) Tasks(arguments []string) ([]status.Task, error) {
	tasks := []status.Task{}
	for i := range r.Images {
		im := &r.Images[i]
		if im.Asked && len(im.Missing) == 0 {
			continue
		}
		t := im.task()
		t.Reason = "nodes need it"
		if im.Asked {
			t.Reason = "not in the registry: " + strings.Join(im.Missing, ", ")
		}
		t, err := status.NewTask(t, slices.Concat(im.arguments(), arguments))
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, t)
	}
	return tasks, nil
}

// arguments are the flags that only the build of this image has.
func (im *NeededImage) arguments() (words []string) {
	for _, flavour := range im.Flavours {
		words = append(words, "--flavour", flavour)
	}
	if im.modules {
		words = append(words, "--profile", string(recipe.ModulesOnly))
	}
	return words
}

// setTag returns the tag of the image with nothing but the modules for a machine's kernel; "" if it
// needs none.
func (m *machine) setTag(o Options) string {
	if !o.Beside || m.host != "" {
		return ""
	}
	tag, _ := recipe.KernelTags(m.target, m.Kernel)
	return tag + recipe.ModulesSuffix
}

// AddModuleImages gives pools the images of modules that the registry has. It has been asked.
func (r *Recommendation) AddModuleImages(repository string) {
	for i := range r.Pools {
		pool := &r.Pools[i]
		for _, im := range r.Images {
			if slices.Contains(pool.sets, im.Tag) && im.Asked &&
				!slices.Contains(im.Missing, pool.arch) {
				pool.ModuleImages = append(pool.ModuleImages, repository+":"+im.Tag)
			}
		}
	}
}

// LackingModules says which images of modules the registry, which was asked, lacks: the values of the
// pools leave them out.
func (r *Recommendation) LackingModules(repository string) (warnings []string) {
	for _, im := range r.Images {
		if im.modules && len(im.Missing) > 0 {
			warnings = append(warnings, fmt.Sprintf("%s:%s (%s) is not in the registry, and the values are without it: "+
				"on nodes with kernel %s the driver has to compile; build it, then make the values again",
				repository, im.Tag, strings.Join(im.Missing, ", "), im.Kernel))
		}
	}
	return warnings
}

// Hint is what machines with a driver could do better.
type Hint struct {
	Text  string   `json:"text"`
	Nodes []string `json:"nodes"`
}

// heldBack names the GPUs without which a machine would get a newer driver, such as a card for a
// screen in a server; "" if there are none.
func (c *chooser) heldBack(m *machine) string {
	if len(m.GPUs.Devices) < 2 {
		return ""
	}
	// the last branch that drives a GPU, a high one if it is not known
	last := func(device uint16) int {
		g, _ := gpus.Lookup(device)
		return cmp.Or(matrix.Major(g.LastBranch), 1<<30)
	}
	oldest := slices.MinFunc(m.GPUs.Devices, func(a, b uint16) int { return last(a) - last(b) })
	isOld := func(device uint16) bool { return last(device) == last(oldest) }
	isNew := func(device uint16) bool { return !isOld(device) }
	n := *m.Node
	n.GPUs.Devices = slices.DeleteFunc(slices.Clone(m.GPUs.Devices), isOld)
	if len(n.GPUs.Devices) == 0 {
		return ""
	}
	old := m.GPUs
	old.Devices = slices.DeleteFunc(slices.Clone(m.GPUs.Devices), isNew)
	without := c.choose(&n)
	if without.code != "" ||
		matrix.CompareVersions(without.target.Driver.Version, m.target.Driver.Version) <= 0 {
		return ""
	}
	return fmt.Sprintf("%s gets driver %s because of %s: without it, driver %s",
		without.need, m.target.Driver.Version, needOf(old), without.target.Driver.Version)
}
