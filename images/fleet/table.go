package fleet

import (
	"fmt"
	"slices"
	"strings"
)

// SetMissing notes what the registry lacks: architectures of each image, in the order of
// [Recommendation.Builds]. The pools get the images of modules that it has.
func (r *Recommendation) SetMissing(archs [][]string, repository string) {
	for i, missing := range archs {
		r.Images[i].Asked = true
		r.Images[i].Missing = missing
	}
	r.AddModuleImages(repository)
}

// Registry says in a word whether the registry has an image.
func (im *NeededImage) Registry() string {
	switch {
	case len(im.Missing) > 0 && len(im.Missing) < len(im.Archs):
		return "lacks " + strings.Join(im.Missing, ",")
	case len(im.Missing) > 0:
		return "missing"
	case im.Asked:
		return "present"
	}
	return "-"
}

// PoolsOf are the names of the pools that use an image, and the drivers that run on their nodes,
// with the known CVEs of each.
func (r *Recommendation) PoolsOf(im NeededImage, repository string) (pools, running []string) {
	var drivers []string
	for _, pool := range r.Pools {
		if pool.Tag == im.Tag || slices.Contains(pool.ModuleImages, repository+":"+im.Tag) {
			pools = append(pools, pool.Name)
			drivers = append(drivers, pool.Running...)
		}
	}
	slices.Sort(drivers)
	for _, driver := range slices.Compact(drivers) {
		exposure := r.Exposures[driver].String()
		if exposure != "" {
			driver += " (CVEs: " + exposure + ")"
		}
		running = append(running, driver)
	}
	return pools, running
}

// Text says why nodes get nothing, and what runs there now.
func (w *Without) Text() string {
	if len(w.Running) > 0 {
		return fmt.Sprintf("%s (driver %s runs there)", w.Reason, strings.Join(w.Running, ", "))
	}
	return w.Reason
}
