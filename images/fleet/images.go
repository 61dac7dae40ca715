package fleet

import (
	"cmp"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/releases"
	"github.com/driver-container/driver-container/images/status"
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
func (p *Plan) addImages(all []Node, answers []answer, release *releases.CUDA) {
	position := map[string]int{}
	for i := range answers {
		a := &answers[i]
		if a.code != "" {
			continue
		}
		im := grouped(&p.Images, position, a.tag(), func() Image {
			d := a.target.Driver
			im := Image{Tag: a.tag(), System: a.target.System.ID, Driver: d.Version, CUDA: releases.CUDAOf(d.Version, d.CUDA), Kernel: a.kernel}
			if release != nil {
				im.RunsCUDA = string(batch.RunsCUDA(d, *release).Support)
			}
			return im
		})
		im.Nodes, im.GPUs, im.Kernels = append(im.Nodes, all[i].Name), append(im.GPUs, a.gpus), append(im.Kernels, all[i].Kernel)
		if !slices.Contains(im.Archs, a.target.Arch) {
			im.Archs, im.targets = append(im.Archs, a.target.Arch), append(im.targets, a.target)
		}
		if a.kernel != "" && !slices.Contains(im.Flavours, a.flavours[0]) {
			im.Flavours = append(im.Flavours, a.flavours[0])
		}
	}
	for i := range p.Images {
		p.Images[i].close()
	}
	slices.SortFunc(p.Images, func(a, b Image) int { return cmp.Compare(a.Tag, b.Tag) })
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
func (p *Plan) Groups() (groups []batch.Group) {
	for i := range p.Images {
		groups = append(groups, p.Images[i].group())
	}
	return groups
}

// Targets are what the images are made of.
func (p *Plan) Targets() (all []matrix.Target) {
	for i := range p.Images {
		all = append(all, p.Images[i].targets...)
	}
	return all
}

// Tasks are the builds that are due: of images that the registry lacks, or of all if it was not asked. The
// flags of the batch are repeated in their arguments.
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
		t, err := status.NewTask(&b, im.group(), reason)
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, t)
	}
	return tasks, nil
}
