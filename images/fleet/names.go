package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
)

const (
	poolNameLength = 20 // of the chart's schema
	hashDigits     = 6
)

// names returns a name for each pool. A name follows from what the nodes are (system, architecture, what
// their GPUs ask for, and the kernel of a precompiled image), so that it stays when drivers change and nodes
// come: helm replaces the DaemonSet of a pool whose name changes on all nodes at once. Only if several pools
// would have one name do the labels count that tell them apart.
func (d *partition) names() []string {
	titles, count := make([]string, len(d.pools)), map[string]int{}
	for i, pool := range d.pools {
		titles[i] = d.title(pool)
		count[titles[i]]++
	}
	names := make([]string, len(d.pools))
	for i, pool := range d.pools {
		extra := d.answers[pool.nodes[0]].kernel
		if extra != "" {
			extra = distros.KernelTag(extra)
		}
		if count[titles[i]] > 1 || !d.nfd && groupLabel(pool.selector) != "" { // there will be more groups
			extra = selectorText(pool.selector)
		}
		names[i] = shortName(titles[i], extra)
	}
	return names
}

// title is the readable part of a pool's name, with all that distinguishes pools of a fleet whose labels are
// in order: "debian12", "ubuntu2204-arm-r580". A precompiled image's kernel stands behind a blank.
func (d *partition) title(of part) string {
	a := &d.answers[of.nodes[0]]
	title := strings.ReplaceAll(a.target.System.ID, ".", "")
	if a.target.Arch != "amd64" {
		title += "-" + strings.TrimSuffix(a.target.Arch, "64") // a name is short
	}
	if a.class != "" && !slices.ContainsFunc(of.nodes, func(i int) bool { return d.answers[i].class != a.class }) {
		title += "-" + a.class
	}
	if a.kernel != "" {
		title += " " + a.kernel
	}
	return title
}

// shortName makes a name that the chart accepts of a title and what else distinguishes the pool. What is too
// long, or what would not be a name, is replaced by digits of its digest.
func shortName(title, extra string) string {
	readable, _, _ := strings.Cut(title, " ")
	if extra == "" && len(readable) <= poolNameLength {
		return readable
	}
	sum := sha256.Sum256([]byte(readable + "\x00" + extra))
	readable = strings.Trim(readable[:min(len(readable), poolNameLength-hashDigits-1)], "-")
	return readable + "-" + hex.EncodeToString(sum[:])[:hashDigits]
}
