package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
)

// partition divides the nodes of a cluster into pools.
type partition struct {
	all         machines
	result      *Recommendation
	precompiled bool
	// systems that are chosen by their whole version: a node has no label with the major one
	whole map[string]bool
	pools []part
}

// part are the nodes that a selector chooses.
type part struct {
	selector map[string]string
	nodes    machines
}

// choosePools finds selectors that choose exactly the nodes that get a driver, and each of them
// once. A node that no selector can choose alone gets nothing instead.
func (r *Recommendation) choosePools(all machines, o Options) {
	r.NFD = slices.ContainsFunc(
		all,
		func(m *machine) bool { return m.code == "" && r.hasChartLabel(m.Labels) },
	)
	d := &partition{all: all, result: r, precompiled: o.Precompiled, whole: map[string]bool{}}
	d.refuseUnlabelled()
	for _, b := range d.bases() {
		if slices.ContainsFunc(b.own, (*machine).free) {
			d.split(b.part)
			d.refuseAlike(b)
		}
	}
	for name, parts := range d.named() {
		r.Pools = append(r.Pools, newPool(name, parts, o))
	}
	slices.SortFunc(r.Pools, func(a, b Pool) int { return cmp.Compare(a.Name, b.Name) })
}

// add makes parts pools.
func (d *partition) add(parts ...part) {
	d.pools = append(d.pools, parts...)
	for _, p := range parts {
		for _, m := range p.nodes {
			m.pooled = true
		}
	}
}

// base are all nodes that a selector chooses by what they are.
type base struct {
	part
	own machines // the nodes that it was made for
}

// bases returns the selectors of all nodes that get a driver, those first that choose most.
func (d *partition) bases() (all []base) {
	selector := func(m *machine) []string { return []string{selectorText(d.base(m))} }
	for _, g := range d.all.where((*machine).served).by(selector) {
		sel := d.base(g.nodes[0])
		all = append(all, base{part: part{selector: sel, nodes: d.matching(sel)}, own: g.nodes})
	}
	slices.SortFunc(all, func(a, b base) int {
		return cmp.Or(
			cmp.Compare(len(b.nodes), len(a.nodes)),
			cmp.Compare(selectorText(a.selector), selectorText(b.selector)),
		)
	})
	return all
}

// base is the selector of a node by what it is: architecture, system, and the kernel for
// precompiled images. Nodes of one group of machines have one system, where no label says which.
func (d *partition) base(m *machine) map[string]string {
	sel := map[string]string{}
	take := func(keys ...string) {
		for _, key := range keys {
			if value, ok := m.Labels[key]; ok {
				sel[key] = value
			}
		}
	}
	if take(LabelArch); len(sel) == 0 {
		take(LabelArchOld)
	}
	take(LabelOSID)
	if key := d.versionKey(m); m.Labels[key] != "" {
		take(key)
	} else if key != "" && m.Labels[LabelOSID] != "" {
		// as Garden Linux, whose releases have a series each
		take(LabelKernelMajor, LabelKernelMinor)
	}
	if d.precompiled && m.host == "" {
		take(LabelKernel)
	}
	if m.host != "" {
		take(LabelHostModules)
	}
	if !d.result.NFD {
		take(m.GPUs.Label)
	}
	if !d.result.NFD || m.Labels[LabelOSID] == "" {
		take(groupLabel(m.Labels))
	}
	return sel
}

// groupLabel returns the label with a node's group; "" if it has none.
func groupLabel(labels map[string]string) string {
	if i := slices.IndexFunc(groups, func(key string) bool { return labels[key] != "" }); i >= 0 {
		return groups[i]
	}
	return ""
}

// versionKey returns the label with the version of a node's system, as far as one image covers it:
// the major version if all nodes of the system that get a driver have that label; "" if the image
// covers every version.
func (d *partition) versionKey(m *machine) string {
	if m.host != "" {
		return ""
	}
	system, err := distros.FromIDs(m.ID, m.VersionID)
	if err != nil {
		return LabelOSVersion // an alias of the matrix
	}
	switch _, version := system.OSRelease(); {
	case version == "":
		return ""
	case version == m.VersionID || d.whole[m.ID]:
		return LabelOSVersion
	}
	return LabelOSMajor
}

// matching returns the nodes that a selector and the chart's own rule choose.
func (d *partition) matching(sel map[string]string) machines {
	return d.all.where(func(m *machine) bool {
		ok := d.result.ByChart(m.Labels)
		for key, value := range sel {
			got, has := m.Labels[key]
			ok = ok && has && got == value
		}
		return ok
	})
}

// newPool is what the chart needs for parts that get the same.
func newPool(name string, parts []part, o Options) Pool {
	m := parts[0].nodes[0]
	pool := Pool{
		Name: name, System: m.target.System.ID, Driver: m.target.Driver.Version,
		Precompiled: m.kernel != "", Kernel: m.kernel, KernelModuleType: m.moduleType(), Tag: m.tag(),
		arch: m.target.Arch,
	}
	pool.NodeSelector, pool.AnyOf = factor(parts)
	if m.host != "" {
		pool.Modules = "host"
	}
	var all machines
	for _, p := range parts {
		all = append(all, p.nodes...)
	}
	pool.Nodes = all.names()
	pool.Running = all.running()
	pool.sets = all.each(func(m *machine) string { return m.setTag(o) })
	return pool
}

// factor writes selectors as one: the labels that all of them want, and those that differ.
func factor(parts []part) (common map[string]string, differ []map[string]string) {
	common = maps.Clone(parts[0].selector)
	for _, p := range parts {
		maps.DeleteFunc(common, func(key, value string) bool { return p.selector[key] != value })
	}
	if len(parts) == 1 {
		return common, nil
	}
	for _, p := range parts {
		rest := maps.Clone(p.selector)
		maps.DeleteFunc(rest, func(key, _ string) bool {
			_, ok := common[key]
			return ok
		})
		differ = append(differ, rest)
	}
	return common, differ
}

// selectorText is a selector on one line, in the order of its keys.
func selectorText(sel map[string]string) string {
	var words []string
	for _, key := range slices.Sorted(maps.Keys(sel)) {
		words = append(words, key+"="+sel[key])
	}
	return strings.Join(words, ",")
}

// refuseUnlabelled refuses nodes without the labels that other nodes have: selectors are about
// these labels.
func (d *partition) refuseUnlabelled() {
	systems := slices.ContainsFunc(
		d.all,
		func(m *machine) bool { return m.code == "" && m.Labels[LabelOSID] != "" },
	)
	for _, m := range d.all {
		if m.code != "" {
			continue
		}
		if why := d.unlabelled(m, systems); why != "" {
			m.refuse(NotLabelled, "%s", why)
		} else if m.Labels[LabelOSMajor] == "" {
			d.whole[m.ID] = true
		}
	}
}

// unlabelled says which label of a node is missing or out of date. systems says that other nodes
// have one with their system.
func (d *partition) unlabelled(m *machine, systems bool) string {
	kernel := m.Labels[LabelKernel]
	system := m.Labels[LabelOSID]
	switch {
	case d.result.NFD && !d.result.hasChartLabel(m.Labels), systems && system == "":
		return "node feature discovery has not labelled it yet: ask again later"
	case !d.result.NFD && m.GPUs.Label == "":
		return "no label says that it has a GPU: install node feature discovery"
	case d.precompiled && m.host == "" && kernel == "":
		return fmt.Sprintf(
			"it has no label %s, by which a pool for its kernel would choose it: install node feature discovery",
			LabelKernel,
		)
	case d.precompiled && m.host == "" && kernel != distros.KernelTag(m.Kernel):
		return fmt.Sprintf(
			"its label %s=%s is not of its kernel %s: ask again later",
			LabelKernel,
			kernel,
			m.Kernel,
		)
	case m.Labels[LabelArch] == "" && m.Labels[LabelArchOld] == "":
		return "it has no label " + LabelArch
	case system == "" && groupLabel(m.Labels) == "":
		return "no label says which system it has, so its pool would take every new node: " +
			"install node feature discovery (label " + LabelOSID + ")"
	}
	return ""
}
