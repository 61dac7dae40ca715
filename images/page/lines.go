package page

import (
	"fmt"
	"slices"
	"strings"
)

// line is a row of the details: the images of a driver of which the same is to be said, one an architecture.
// Drivers whose images no registry has share a line.
type line struct {
	Cell    // the first image, with the text of all
	Drivers []named
	Images  []Cell // of the first driver
}

// named is a driver of a line. A field of the overview leads to its ID, which only its first line has.
type named struct{ ID, Version, Source string }

// lines are the rows for the cells of a system, which are in the order of drivers and architectures.
func lines(cells []Cell) []line {
	var single []line // of one driver
	for _, c := range cells {
		i := slices.IndexFunc(single, func(l line) bool { return l.Driver == c.Driver && l.Source == c.Source && l.said() == c.said() })
		if i < 0 {
			single = append(single, line{c, []named{{"", c.Driver, c.Source}}, []Cell{c}})
			continue
		}
		single[i].Images = append(single[i].Images, c)
	}
	var all []line
	for _, l := range single {
		i := slices.IndexFunc(all, func(x line) bool { return x.unbuilt() && l.unbuilt() && x.said() == l.said() && x.archs() == l.archs() })
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

// said is the text of a cell without driver and architecture: cells with equal text can share a row.
func (c Cell) said() string {
	return fmt.Sprintf("%q", []any{c.State, c.Why, c.ending(), c.Kernels, c.Modules, c.Patches, c.Companions, c.Omitted})
}

// ending is a tag without the driver.
func (c Cell) ending() string {
	if end, ok := strings.CutPrefix(c.Tag, "<driver>"); ok {
		return end
	}
	return strings.TrimPrefix(c.Tag, c.Driver)
}

func (l line) unbuilt() bool {
	return !slices.ContainsFunc(l.Images, func(c Cell) bool { return c.Digest != "" || c.Size != 0 || !c.Created.IsZero() })
}

func (l line) archs() string { return strings.Join(l.Archs(), ", ") }

// Archs are the architectures of the images.
func (l line) Archs() (all []string) {
	for _, c := range l.Images {
		all = append(all, c.Arch)
	}
	return all
}

// lead gives each driver of a system the anchor that its field of the overview leads to.
func lead(system string, all ...[]line) {
	seen := map[string]bool{}
	for _, lines := range all {
		for _, l := range lines {
			for i := range l.Drivers {
				if d := &l.Drivers[i]; !seen[d.Version] {
					d.ID, seen[d.Version] = anchor(system, d.Version), true
				}
			}
		}
	}
}
