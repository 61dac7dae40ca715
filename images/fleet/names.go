package fleet

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/matrix"
)

const (
	poolNameLength = 20 // of the chart's schema
	hashDigits     = 6
)

// named returns the parts of each pool by its name: all that have one name and get the same are one
// pool.
//
// helm replaces the DaemonSet of a pool whose name changes on all nodes at once. So a name follows
// from the pool's own nodes and selector, and from no other pool. Two that get different things and
// have one name are not known; their digests could be equal.
func (d *partition) named() map[string][]part {
	pools := map[string][]part{}
	slices.SortFunc(
		d.pools,
		func(a, b part) int { return cmp.Compare(selectorText(a.selector), selectorText(b.selector)) },
	)
	for _, p := range d.pools {
		name := d.name(p)
		for len(pools[name]) > 0 && pools[name][0].nodes[0].settings != p.nodes[0].settings {
			name = shortName(name, selectorText(p.selector))
		}
		pools[name] = append(pools[name], p)
	}
	return pools
}

// name is what the nodes of a part are: system, architecture and what their GPUs ask for. The name
// has a digest too if that is not all: of the kernel of a precompiled image, of the driver of the
// system's own modules, and of the selector if there may be more pools of such nodes.
func (d *partition) name(p part) string {
	m := p.nodes[0]
	switch {
	case m.unusual, !d.result.NFD && groupLabel(p.selector) != "": // there will be more groups
		return shortName(p.title(), selectorText(p.selector))
	case m.host != "":
		return shortName(p.title(), m.ID+" "+m.host)
	}
	return shortName(p.title(), distros.KernelTag(m.kernel))
}

// title is the readable part of a pool's name, with all that distinguishes pools of a fleet whose
// labels are in order: "debian12", "ubuntu2204-arm-r580".
func (p part) title() string {
	m := p.nodes[0]
	title := strings.ReplaceAll(m.target.System.ID, ".", "")
	if m.host != "" {
		title = "host-r" + strconv.Itoa(matrix.Major(m.host))
	}
	if m.target.Arch != "amd64" {
		title += "-" + strings.TrimSuffix(m.target.Arch, "64") // a name is short
	}
	class := m.need.class()
	if class != "" && m.host == "" &&
		!slices.ContainsFunc(
			p.nodes,
			func(other *machine) bool { return other.need.class() != class },
		) {
		title += "-" + class
	}
	return title
}

// shortName makes a name that the chart accepts of a title and what else distinguishes the pool.
// What is too long, or what would not be a name, is replaced by digits of its digest.
func shortName(title, extra string) string {
	if extra == "" && len(title) <= poolNameLength {
		return title
	}
	sum := sha256.Sum256([]byte(title + "\x00" + extra))
	title = strings.Trim(title[:min(len(title), poolNameLength-hashDigits-1)], "-")
	return title + "-" + hex.EncodeToString(sum[:])[:hashDigits]
}
