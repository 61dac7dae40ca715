package fleet

import (
	"strings"

	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/survey"
)

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
func (p *Plan) Tasks(b batch.Batch) ([]survey.Task, error) {
	tasks := []survey.Task{}
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
		t, err := survey.NewTask(&b, im.group(), reason)
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, t)
	}
	return tasks, nil
}
