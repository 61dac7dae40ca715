package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/releases"
)

// partition divides the nodes of a cluster into pools.
type partition struct {
	all     []Node
	answers []answer
	devices [][]string      // labels that name the GPUs of each node
	nfd     bool            // the chart's affinity counts
	whole   map[string]bool // systems that are chosen by their whole version: a node has no label with the major one
	pools   []part
	taken   map[int]bool // nodes of these pools
}

// choosePools finds selectors that choose exactly the nodes that get a driver, and each of them once. A node
// that no selector can choose alone gets nothing instead.
func (p *Plan) choosePools(all []Node, answers []answer, precompiled bool) {
	d := &partition{all: all, answers: answers, taken: map[int]bool{}, whole: map[string]bool{}}
	for i := range all {
		d.nfd = d.nfd || answers[i].code == "" && HasChartLabel(all[i].Labels)
		d.devices = append(d.devices, deviceLabels(&all[i]))
	}
	p.NFD = d.nfd
	d.refuseUnlabelled(precompiled)
	for _, b := range d.bases(precompiled) {
		if slices.ContainsFunc(b.own, d.free) {
			d.split(b.part)
			d.refuseAlike(b)
		}
	}
	for i, name := range d.names() {
		p.Pools = append(p.Pools, d.pool(d.pools[i], name))
	}
	slices.SortFunc(p.Pools, func(a, b Pool) int { return cmp.Compare(a.Name, b.Name) })
}

// add makes parts pools.
func (d *partition) add(parts ...part) {
	d.pools = append(d.pools, parts...)
	for _, p := range parts {
		for _, i := range p.nodes {
			d.taken[i] = true
		}
	}
}

// base are all nodes that a selector chooses by what they are.
type base struct {
	part
	own []int // the nodes that it was made for
}

// bases returns the selectors of all nodes that get a driver, those first that choose most.
func (d *partition) bases(precompiled bool) []base {
	position, all := map[string]int{}, []base{}
	for i := range d.all {
		if d.answers[i].code != "" {
			continue
		}
		sel := d.base(i, precompiled)
		b := grouped(&all, position, selectorText(sel), func() base { return base{part: part{selector: sel, nodes: d.matching(sel)}} })
		b.own = append(b.own, i)
	}
	slices.SortFunc(all, func(a, b base) int {
		return cmp.Or(cmp.Compare(len(b.nodes), len(a.nodes)), cmp.Compare(selectorText(a.selector), selectorText(b.selector)))
	})
	return all
}

// refuseUnlabelled refuses nodes without the labels that other nodes have: selectors are about these labels.
func (d *partition) refuseUnlabelled(precompiled bool) {
	served := func(i int) bool { return d.answers[i].code == "" }
	systems := false
	for i := range d.all {
		systems = systems || served(i) && d.all[i].Labels[LabelOSID] != ""
	}
	for i := range d.all {
		if !served(i) {
			continue
		}
		if why := d.unlabelled(&d.all[i], systems, precompiled); why != "" {
			d.answers[i] = answer{code: NotLabelled, reason: why}
		}
	}
	for i := range d.all {
		if n := &d.all[i]; served(i) && n.Labels[LabelOSMajor] == "" {
			d.whole[n.ID] = true
		}
	}
}

// unlabelled says which label of a node is missing or out of date. systems says that other nodes have one with
// their system.
func (d *partition) unlabelled(n *Node, systems, precompiled bool) string {
	kernel, system := n.Labels[LabelKernel], n.Labels[LabelOSID]
	switch {
	case d.nfd && !HasChartLabel(n.Labels), systems && system == "":
		return "node feature discovery has not labelled it yet: ask again later"
	case !d.nfd && n.GPUs.Label == "":
		return "no label says that it has a GPU: install node feature discovery"
	case precompiled && kernel == "":
		return fmt.Sprintf("it has no label %s, by which a pool for its kernel would choose it: install node feature discovery", LabelKernel)
	case precompiled && kernel != distros.KernelTag(n.Kernel):
		return fmt.Sprintf("its label %s=%s is not of its kernel %s: ask again later", LabelKernel, kernel, n.Kernel)
	case n.Labels[LabelArch] == "" && n.Labels[LabelArchOld] == "":
		return "it has no label " + LabelArch
	case system == "" && groupLabel(n.Labels) == "":
		return "no label says which system it has, so its pool would take every new node: " +
			"install node feature discovery (label " + LabelOSID + ")"
	}
	return ""
}

// base is the selector of a node by what it is: architecture, system, and the kernel for precompiled images.
// Nodes of one group of machines have one system, where no label says which.
func (d *partition) base(i int, precompiled bool) map[string]string {
	n, sel := &d.all[i], map[string]string{}
	take := func(keys ...string) {
		for _, key := range keys {
			if value, ok := n.Labels[key]; ok {
				sel[key] = value
			}
		}
	}
	if take(LabelArch); len(sel) == 0 {
		take(LabelArchOld)
	}
	take(LabelOSID)
	if key := d.versionKey(n); n.Labels[key] != "" {
		take(key)
	} else if key != "" && n.Labels[LabelOSID] != "" {
		take(LabelKernelMajor, LabelKernelMinor) // as Garden Linux, whose releases have a series each
	}
	if precompiled {
		take(LabelKernel)
	}
	if !d.nfd {
		take(n.GPUs.Label)
	}
	if !d.nfd || n.Labels[LabelOSID] == "" {
		take(groupLabel(n.Labels))
	}
	return sel
}

// groups are labels with the name of a group of machines that a cloud makes from one template.
var groups = []string{"eks.amazonaws.com/nodegroup", "cloud.google.com/gke-nodepool", "kubernetes.azure.com/agentpool", "agentpool", "karpenter.sh/nodepool"}

// groupLabel returns the label with a node's group; "" if it has none.
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
func (d *partition) versionKey(n *Node) string {
	system, err := distros.FromIDs(n.ID, n.VersionID)
	if err != nil {
		return LabelOSVersion // an alias of the matrix
	}
	switch _, version := system.OSRelease(); version {
	case "":
		return ""
	case n.VersionID:
		return LabelOSVersion
	}
	if d.whole[n.ID] {
		return LabelOSVersion
	}
	return LabelOSMajor
}

// matching returns the nodes that a selector and the chart's own rule choose.
func (d *partition) matching(sel map[string]string) (found []int) {
	for i := range d.all {
		labels := d.all[i].Labels
		ok := ByChart(labels, d.nfd)
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

// pool is a part with everything that the chart needs.
func (d *partition) pool(of part, name string) Pool {
	a := &d.answers[of.nodes[0]]
	p := Pool{
		Name: name, NodeSelector: of.selector, System: a.target.System.ID, Driver: a.target.Driver.Version,
		Precompiled: a.kernel != "", Kernel: a.kernel, KernelModuleType: a.moduleType(), Tag: a.tag(),
	}
	for _, i := range of.nodes {
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
