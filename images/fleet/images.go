package fleet

import (
	"cmp"
	"slices"

	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/cuda"
	"github.com/driver-container/driver-container/images/fleet/nodes"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
)

// tag returns the tag of the image that a machine gets.
func (a *answer) tag() string {
	if a.kernel == "" {
		return a.target.Tag()
	}
	tag, _ := recipe.KernelTags(a.target, a.kernel)
	return tag
}

// addImages adds what the machines need, each image once.
func (p *Plan) addImages(all []nodes.Node, answers []answer, release *cuda.Release) {
	position := map[string]int{}
	for i := range answers {
		a := &answers[i]
		if a.code != "" {
			continue
		}
		at, ok := position[a.tag()]
		if !ok {
			at = len(p.Images)
			position[a.tag()] = at
			d := a.target.Driver
			p.Images = append(p.Images, Image{
				Tag: a.tag(), System: a.target.System.ID, Driver: d.Version, CUDA: cuda.Of(d.Version, d.CUDA).String(), Kernel: a.kernel,
			})
			if release != nil {
				p.Images[at].RunsCUDA = string(batch.RunsCUDA(d, *release).Support)
			}
		}
		p.Images[at].add(a, &all[i])
	}
	for i := range p.Images {
		p.Images[i].close()
	}
	slices.SortFunc(p.Images, func(a, b Image) int { return cmp.Compare(a.Tag, b.Tag) })
}

// add adds a machine that needs the image.
func (im *Image) add(a *answer, n *nodes.Node) {
	im.Nodes, im.GPUs, im.Kernels = append(im.Nodes, n.Name), append(im.GPUs, a.gpus), append(im.Kernels, n.Kernel)
	if !slices.Contains(im.Archs, a.target.Arch) {
		im.Archs, im.targets = append(im.Archs, a.target.Arch), append(im.targets, a.target)
	}
	if a.kernel != "" && !slices.Contains(im.Flavours, a.flavours[0]) {
		im.Flavours = append(im.Flavours, a.flavours[0])
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
