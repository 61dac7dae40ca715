package status

import (
	"fmt"
	"slices"
	"strings"
)

// line is a row of the details: the images of a driver of which the same is to be said, one an
// architecture. Drivers whose images no registry has share a line.
type line struct {
	Cell    // the first image, with the text of all
	Drivers []named
	Images  []Cell // of the first driver
}

// named is a driver of a line. A field of the overview leads to its ID, which only its first line
// has.
type named struct{ ID, Version, Source string }

// lines are the rows for the cells of a system, excluded or not, which are in the order of drivers
// and architectures.
func lines(cells []Cell, excluded bool) (all []*line) {
	var single []*line // of one driver
	for _, c := range cells {
		if (c.State == Excluded) != excluded {
			continue
		}
		i := slices.IndexFunc(
			single,
			func(l *line) bool { return l.Driver == c.Driver && l.Source == c.Source && l.said() == c.said() },
		)
		if i < 0 {
			i = len(single)
			single = append(single, &line{c, []named{{"", c.Driver, c.Source}}, nil})
		}
		single[i].Images = append(single[i].Images, c)
	}
	for _, l := range single {
		i := slices.IndexFunc(all, func(x *line) bool {
			return !x.built() && !l.built() && x.said() == l.said() &&
				slices.Equal(x.Archs(), l.Archs())
		})
		if i < 0 {
			all = append(all, l)
			continue
		}
		all[i].Drivers = append(all[i].Drivers, l.Drivers...)
		if l.Tag != "" {
			all[i].Tag = "<driver>" + l.ending()
		}
	}
	return all
}

// said is the text of a cell without driver and architecture: cells with equal text can share a
// row.
func (c Cell) said() string {
	return fmt.Sprintf(
		"%q",
		[]any{c.State, c.Why, c.ending(), c.Kernels, c.Modules, c.Patches, c.Companions, c.Omitted},
	)
}

// ending is a tag without the driver.
func (c Cell) ending() string {
	return strings.TrimPrefix(strings.TrimPrefix(c.Tag, "<driver>"), c.Driver)
}

func (l *line) built() bool {
	return slices.ContainsFunc(
		l.Images,
		func(c Cell) bool { return c.Digest != "" || c.Size != 0 || !c.Created.IsZero() },
	)
}

// Archs are the architectures of the images.
func (l *line) Archs() (all []string) {
	for _, c := range l.Images {
		all = append(all, c.Arch)
	}
	return all
}
