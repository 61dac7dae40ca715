package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/gpus"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/releases"
	"github.com/driver-container/driver-container/images/status"
)

// image is an image for a machine, before it is added. kernel is the one whose modules it has, if
// it has any.
func (c *chooser) image(m *machine, tag, kernel string) Image {
	d := m.target.Driver
	im := Image{
		Tag:    tag,
		System: m.target.System.ID,
		Driver: d.Version,
		CUDA:   releases.CUDAOf(d.Version, d.CUDA),
		Kernel: kernel,
	}
	im.modules = strings.HasSuffix(tag, recipe.ModulesSuffix)
	if c.options.CUDA != nil {
		im.RunsCUDA = string(batch.RunsCUDA(d, *c.options.CUDA).Support)
	}
	return im
}

// add adds a machine that gets the image.
func (im *Image) add(m *machine) {
	im.Nodes, im.GPUs, im.Kernels = append(
		im.Nodes,
		m.Name,
	), append(
		im.GPUs,
		m.need.String(),
	), append(
		im.Kernels,
		m.Kernel,
	)
	if !slices.Contains(im.Archs, m.target.Arch) {
		im.Archs = append(im.Archs, m.target.Arch)
		im.targets = append(im.targets, m.target)
	}
	if im.Kernel != "" && !slices.Contains(im.Flavours, m.flavours[0]) {
		im.Flavours = append(im.Flavours, m.flavours[0])
	}
}

// close puts an image's lists in order. The flavour that a build compiles anyway needs no mention.
func (im *Image) close() {
	for _, list := range []*[]string{&im.Archs, &im.GPUs, &im.Kernels} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	slices.SortFunc(im.targets, func(a, b matrix.Target) int { return cmp.Compare(a.Arch, b.Arch) })
	whole := im.targets[0]
	whole.Flavours = whole.Driver.Flavours
	im.Flavours = recipe.PreferredFlavours(im.Flavours, im.Driver)
	if slices.Equal(im.Flavours, recipe.CompiledFlavours(whole, nil)) || len(im.Flavours) == 0 {
		im.Flavours = nil
	}
}

// group is the image as a build has it.
func (im *Image) group() batch.Group {
	g := batch.Group{Tag: im.Tag}
	for _, t := range im.targets {
		t.Flavours = t.Driver.Flavours
		if im.Flavours != nil {
			t.Flavours = im.Flavours
		}
		one := batch.Image{Target: t}
		if im.Kernel != "" {
			one.Plan.Kernels = []string{im.Kernel}
		}
		g.Images = append(g.Images, one)
	}
	return g
}

// Groups are the images as builds have them, in the order of the plan.
func (p *Plan) Groups() (all []batch.Group) {
	for i := range p.Images {
		all = append(all, p.Images[i].group())
	}
	return all
}

// Tasks are the builds that are due: of images that the registry lacks, or of all if it was not
// asked. The flags of the batch are repeated in their arguments.
func (p *Plan) Tasks(b batch.Batch) ([]status.Task, error) {
	tasks := []status.Task{}
	for i := range p.Images {
		im := &p.Images[i]
		if im.Asked && len(im.Missing) == 0 {
			continue
		}
		reason := "nodes need it"
		if im.Asked {
			reason = "not in the registry: " + strings.Join(im.Missing, ", ")
		}
		b.Selection.Flavours = im.Flavours
		b.Given.Profile = ""
		if im.modules {
			b.Given.Profile = string(recipe.ModulesOnly)
		}
		t, err := status.NewTask(&b, im.group(), reason)
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, t)
	}
	return tasks, nil
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
func (p *Plan) AddModuleImages(repository string) {
	for i := range p.Pools {
		pool := &p.Pools[i]
		for _, im := range p.Images {
			if slices.Contains(pool.sets, im.Tag) && im.Asked &&
				!slices.Contains(im.Missing, pool.arch) {
				pool.ModuleImages = append(pool.ModuleImages, repository+":"+im.Tag)
			}
		}
	}
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
	n := *m.Node
	old := m.GPUs
	n.GPUs.Devices = nil
	old.Devices = nil
	for _, device := range m.GPUs.Devices {
		if slices.ContainsFunc(
			m.GPUs.Devices,
			func(other uint16) bool { return last(other) < last(device) },
		) {
			n.GPUs.Devices = append(n.GPUs.Devices, device)
		} else {
			old.Devices = append(old.Devices, device)
		}
	}
	if len(n.GPUs.Devices) == 0 {
		return ""
	}
	without := c.choose(&n)
	if without.code != "" ||
		matrix.CompareVersions(without.target.Driver.Version, m.target.Driver.Version) <= 0 {
		return ""
	}
	return fmt.Sprintf("%s gets driver %s because of %s: without it, driver %s",
		without.need, m.target.Driver.Version, needOf(old), without.target.Driver.Version)
}
