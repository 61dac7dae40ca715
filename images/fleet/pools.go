package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/fleet/nodes"
	"github.com/driver-container/driver-container/images/releases"
)

// partition divides the nodes of a cluster into pools.
type partition struct {
	all     []nodes.Node
	answers []answer
	nfd     bool // the chart's affinity counts
	pools   []draft
	taken   map[int]bool // nodes of these pools
}

// draft is a pool without a name.
type draft struct {
	selector map[string]string
	differs  []string // keys of the selector that tell the nodes apart from others of the same system
	members  []int
}

// choosePools finds selectors that choose exactly the nodes that get a driver, and each of them once. A node
// that no selector can choose alone gets nothing instead.
func (p *Plan) choosePools(all []nodes.Node, answers []answer, precompiled bool) {
	d := &partition{all: all, answers: answers, taken: map[int]bool{}}
	served := d.served(nil)
	d.nfd = slices.ContainsFunc(served, func(i int) bool { return nodes.HasChartLabel(all[i].Labels) })
	p.NFD = d.nfd
	d.refuseUnlabelled(served, precompiled)
	for _, b := range d.bases(precompiled) {
		d.take(b)
	}
	for i, name := range d.names() {
		p.Pools = append(p.Pools, d.pool(d.pools[i], name))
	}
	slices.SortFunc(p.Pools, func(a, b Pool) int { return cmp.Compare(a.Name, b.Name) })
}

// base is the selector of some nodes by what they are.
type base struct {
	selector map[string]string
	own      []int // the nodes that it was made for
	chosen   []int // all nodes that it chooses
}

// bases returns the selectors of all nodes that get a driver, those first that choose most.
func (d *partition) bases(precompiled bool) []base {
	position, all := map[string]int{}, []base{}
	for _, i := range d.served(nil) {
		sel := d.base(i, precompiled)
		key := selectorText(sel)
		at, ok := position[key]
		if !ok {
			at = len(all)
			position[key] = at
			all = append(all, base{selector: sel, chosen: d.matching(sel, nil)})
		}
		all[at].own = append(all[at].own, i)
	}
	slices.SortFunc(all, func(a, b base) int {
		return cmp.Or(cmp.Compare(len(b.chosen), len(a.chosen)), cmp.Compare(selectorText(a.selector), selectorText(b.selector)))
	})
	return all
}

// take makes the pools of a base, unless those of another base have its nodes already. A pool that would
// choose a node of another pool is dropped, and its other nodes get nothing.
func (d *partition) take(b base) {
	free := func(i int) bool { return d.answers[i].code == "" && !d.taken[i] }
	if !slices.ContainsFunc(b.own, free) {
		return
	}
	before := len(d.pools)
	d.split(b.selector, nil, b.chosen, keysThatDiffer)
	made := d.pools[before:]
	d.pools = d.pools[:before:before]
	for _, pool := range made {
		if i := slices.IndexFunc(pool.members, func(i int) bool { return d.taken[i] }); i >= 0 {
			for _, other := range pool.members {
				if free(other) {
					d.refuse(other, NotLabelled, "its labels are too few to tell it from %s, which is in another pool: label it as that node is", d.all[pool.members[i]].Name)
				}
			}
			continue
		}
		for _, i := range pool.members {
			d.taken[i] = true
		}
		d.pools = append(d.pools, pool)
	}
}

// served returns those of some nodes that get a driver; nil means all nodes.
func (d *partition) served(some []int) (found []int) {
	if some == nil {
		for i := range d.all {
			some = append(some, i)
		}
	}
	return slices.DeleteFunc(slices.Clone(some), func(i int) bool { return d.answers[i].code != "" })
}

// refuse takes the driver from a node.
func (d *partition) refuse(i int, code, format string, args ...any) {
	d.answers[i] = answer{code: code, reason: fmt.Sprintf(format, args...)}
}

// refuseUnlabelled refuses nodes without the labels that other nodes have: selectors are about these labels.
func (d *partition) refuseUnlabelled(served []int, precompiled bool) {
	systems := slices.ContainsFunc(served, func(i int) bool { return d.all[i].Labels[nodes.LabelOSID] != "" })
	for _, i := range served {
		n := &d.all[i]
		kernel := n.Labels[nodes.LabelKernel]
		switch {
		case d.nfd && !nodes.HasChartLabel(n.Labels), systems && n.Labels[nodes.LabelOSID] == "":
			d.refuse(i, NotLabelled, "node feature discovery has not labelled it yet: ask again later")
		case !d.nfd && n.GPUs.Label == "":
			d.refuse(i, NotLabelled, "no label says that it has a GPU: install node feature discovery")
		case precompiled && kernel == "":
			d.refuse(i, NotLabelled, "it has no label %s, by which a pool for its kernel would choose it: install node feature discovery", nodes.LabelKernel)
		case precompiled && kernel != distros.KernelTag(n.Kernel):
			d.refuse(i, NotLabelled, "its label %s=%s is not of its kernel %s: ask again later", nodes.LabelKernel, kernel, n.Kernel)
		case n.Labels[nodes.LabelArch] == "" && n.Labels[nodes.LabelArchOld] == "":
			d.refuse(i, NotLabelled, "it has no label %s", nodes.LabelArch)
		}
	}
}

// base is the selector of a node by what it is: architecture, system, and the kernel for precompiled images.
func (d *partition) base(i int, precompiled bool) map[string]string {
	n, sel := &d.all[i], map[string]string{}
	take := func(key string) {
		if value, ok := n.Labels[key]; ok {
			sel[key] = value
		}
	}
	if take(nodes.LabelArch); len(sel) == 0 {
		take(nodes.LabelArchOld)
	}
	take(nodes.LabelOSID)
	if key := d.versionKey(n); key != "" {
		take(key)
	}
	if precompiled {
		take(nodes.LabelKernel)
	}
	if !d.nfd {
		take(n.GPUs.Label)
		if key := groupLabel(n.Labels); key != "" {
			take(key)
		}
	}
	return sel
}

// groups are labels with the name of a group of machines that a cloud makes from one template.
var groups = []string{"eks.amazonaws.com/nodegroup", "cloud.google.com/gke-nodepool", "kubernetes.azure.com/agentpool", "agentpool", "karpenter.sh/nodepool"}

// groupLabel returns the label with a node's group; "" if it has none. Without node feature discovery no
// label says which system a node has; the nodes of a group have the same.
func groupLabel(labels map[string]string) string {
	for _, key := range groups {
		if labels[key] != "" {
			return key
		}
	}
	return ""
}

// versionKey returns the label with the version of a node's system, as far as one image covers it: the major
// version if all nodes of the system that get a driver have that label; "" if the image covers every version.
func (d *partition) versionKey(n *nodes.Node) string {
	system, err := distros.FromIDs(n.ID, n.VersionID)
	if err != nil {
		return nodes.LabelOSVersion // an alias of the matrix
	}
	switch _, version := system.OSRelease(); version {
	case "":
		return ""
	case n.VersionID:
		return nodes.LabelOSVersion
	}
	for i := range d.all {
		other := &d.all[i]
		if d.answers[i].code == "" && other.ID == n.ID && other.Labels[nodes.LabelOSMajor] == "" {
			return nodes.LabelOSVersion
		}
	}
	return nodes.LabelOSMajor
}

// matching returns those of some nodes that a selector and the chart's own rule choose; nil means all nodes.
func (d *partition) matching(sel map[string]string, some []int) (found []int) {
	if some == nil {
		for i := range d.all {
			some = append(some, i)
		}
	}
	for _, i := range some {
		labels := d.all[i].Labels
		ok := nodes.ByChart(labels, d.nfd)
		for key, value := range sel {
			got, has := labels[key]
			ok = ok && has && got == value
		}
		if ok {
			found = append(found, i)
		}
	}
	return found
}

// pool is a draft with everything that the chart needs.
func (d *partition) pool(of draft, name string) Pool {
	a := &d.answers[of.members[0]]
	p := Pool{
		Name: name, NodeSelector: of.selector, System: a.target.System.ID, Driver: a.target.Driver.Version, Kernel: a.kernel,
		KernelModuleType: a.moduleType(), Tag: a.tag(),
	}
	for _, i := range of.members {
		p.Nodes = append(p.Nodes, d.all[i].Name)
		if version := d.all[i].Driver(); version != "" && !slices.Contains(p.Running, version) {
			p.Running = append(p.Running, version)
		}
	}
	slices.SortFunc(p.Running, releases.Compare)
	return p
}

// selectorText is a selector on one line, in the order of its keys.
func selectorText(sel map[string]string) string {
	var words []string
	for _, key := range slices.Sorted(maps.Keys(sel)) {
		words = append(words, key+"="+sel[key])
	}
	return strings.Join(words, ",")
}
