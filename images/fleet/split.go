package fleet

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"
)

// byDevice stands for the labels that name a node's GPUs. A node has one for each kind.
const byDevice = nfd + "pci-"

// ofRules are labels of the rules of driver-build gpus, which no new driver moves. Keys with a
// comma between them count together.
var ofRules = []string{
	labelModules,
	labelLast,
	labelGeneration,
	labelGeneration + "," + labelModules,
}

// ofGPU is what labels say of the GPUs before a driver runs: those rules, and the names of clouds.
var ofGPU = func() []string {
	keys := slices.Clone(ofRules)
	for _, c := range cloudGPUs {
		if c.names {
			keys = append(keys, c.key)
		}
	}
	return keys
}()

// keysThatDiffer are labels that may tell nodes apart that need different settings, in the order in
// which they are tried: modules of the system's own, GPUs, groups of machines, what is there only
// once a driver runs (a new node would never get one), and the series of the kernel, which changes
// with the system. The whole version of the kernel is no key: its next update would take the driver
// from the nodes. (A pool of precompiled images has it anyway.)
var keysThatDiffer = slices.Concat(
	labelsOfHost,
	ofRules,
	[]string{byDevice},
	ofGPU[len(ofRules):],
	cloudSystems,
	groups,
	instanceTypes,
	[]string{"nvidia.com/gpu.family", "nvidia.com/gpu.product"},
	[]string{LabelKernelMajor, LabelKernelMajor + "," + LabelKernelMinor},
)

// A question is what the nodes of a pool must have in common: what the pool has to say, and what
// may need another driver later.
type question = func(*machine) string

func setting(m *machine) string         { return m.settings }
func settingAndClass(m *machine) string { return m.class }

// same reports whether some nodes are free and have the same answer to a question.
func same(some machines, q question) bool {
	return !slices.ContainsFunc(
		some,
		func(m *machine) bool { return !m.free() || q(m) != q(some[0]) },
	)
}

// split makes pools of the nodes that a selector chooses. If they do not all need the same, it adds
// labels to the selector: the first that tell them all apart, or else all that tell some apart, so
// that one node without a label takes the driver from no other. Nodes that need the same for
// different reasons share a pool if no label of their GPUs tells them apart.
func (d *partition) split(whole part) {
	if same(whole.nodes, settingAndClass) {
		d.add(whole)
		return
	}
	if same(whole.nodes, setting) {
		for _, keys := range ofGPU {
			if parts, left := whole.pure(whole.parts(keys), settingAndClass); !left {
				d.add(parts...)
				return
			}
		}
		d.add(whole)
		return
	}
	for _, some := range []bool{false, true} {
		for _, q := range []question{settingAndClass, setting} {
			for all := range whole.divisions() {
				parts, left := whole.pure(all, q)
				if left && !some {
					continue
				}
				if d.add(parts...); !left {
					return
				}
			}
		}
	}
}

// divisions are the ways to divide nodes: by the keys, and by two of them.
func (p part) divisions() iter.Seq[[]part] {
	return func(yield func([]part) bool) {
		one := make([][]part, len(keysThatDiffer))
		for n, keys := range keysThatDiffer {
			one[n] = p.parts(keys)
			if !yield(one[n]) {
				return
			}
		}
		for n := range one {
			if len(one[n]) == 1 && len(one[n][0].nodes) == len(p.nodes) {
				continue // divides nothing
			}
			for _, keys := range keysThatDiffer[n+1:] {
				var both []part
				for _, below := range one[n] {
					both = append(both, below.parts(keys)...)
				}
				if !yield(both) {
					return
				}
			}
		}
	}
}

// parts divides nodes by the values of labels, the largest part first. Nodes that lack one are in
// no part.
func (p part) parts(keys string) (parts []part) {
	for _, g := range p.nodes.by(func(m *machine) []string { return m.values(keys) }) {
		parts = append(parts, part{g.nodes[0].narrow(p.selector, keys, g.key), g.nodes})
	}
	slices.SortStableFunc(
		parts,
		func(a, b part) int { return cmp.Compare(len(b.nodes), len(a.nodes)) },
	)
	return parts
}

// values returns what labels say of a node: by device the labels themselves, else one text; none if
// the node lacks a label.
func (m *machine) values(keys string) []string {
	if keys == byDevice {
		return m.devices
	}
	first, second, two := strings.Cut(keys, ",")
	value := m.Labels[first]
	switch {
	case value == "" || two && m.Labels[second] == "":
		return nil
	case two:
		value += "," + m.Labels[second]
	}
	return []string{value}
}

// narrow adds labels of a node to a selector.
func (m *machine) narrow(sel map[string]string, keys, value string) map[string]string {
	sel = maps.Clone(sel)
	if keys == byDevice {
		keys = value
	}
	for key := range strings.SplitSeq(keys, ",") {
		sel[key] = m.Labels[key]
	}
	return sel
}

// pure returns the parts whose nodes all have the same answer to a question, none of them in two
// parts; left says that others are left over.
func (p part) pure(parts []part, q question) (found []part, left bool) {
	placed := map[*machine]bool{}
	for _, of := range parts {
		if !slices.ContainsFunc(of.nodes, func(m *machine) bool { return placed[m] }) &&
			same(of.nodes, q) {
			found = append(found, of)
			for _, m := range of.nodes {
				placed[m] = true
			}
		}
	}
	return found, slices.ContainsFunc(
		p.nodes,
		func(m *machine) bool { return m.free() && !placed[m] },
	)
}

// deviceLabels returns the labels of node feature discovery that name a node's GPUs.
func deviceLabels(n *Node) (found []string) {
	for key, value := range n.Labels {
		if device, _ := pciDevice(key); value == "true" && slices.Contains(n.GPUs.Devices, device) {
			found = append(found, key)
		}
	}
	slices.Sort(found)
	return found
}

// refuseAlike takes the driver from nodes of a base that no selector could choose alone, and says
// which node is in the way. Nodes in a pool of another base keep it.
func (d *partition) refuseAlike(b base) {
	reasons := map[string]machine{}
	left := b.own.where((*machine).free)
	for _, m := range left {
		if _, ok := reasons[m.class]; !ok {
			reasons[m.class] = alike(*m, b.nodes)
		}
	}
	for _, m := range left {
		why := reasons[m.class]
		m.refuse(why.code, "%s", why.reason)
	}
}

// alike returns a machine with the reason: from which other nodes labels do not tell it.
func alike(m machine, among machines) machine {
	needsOther := func(other *machine) bool { return other.code != "" || other.settings != m.settings }
	other := slices.IndexFunc(among, func(o *machine) bool { return needsOther(o) && !m.differs(o) })
	if other < 0 {
		other = slices.IndexFunc(among, needsOther)
	}
	if other < 0 {
		pooled := among[slices.IndexFunc(among, func(o *machine) bool { return o.pooled })]
		m.refuse(
			NotLabelled,
			"its labels are too few to tell it from %s, which is in another pool: label it as that node is",
			pooled.Name,
		)
		return m
	}
	advice := "apply the rules of driver-build gpus, or label them"
	if len(m.devices) == 0 {
		advice = "let node feature discovery label the devices of all nodes (docs/fleet.md#label-nodes-before-they-have-a-driver), " + advice
	}
	o := among[other]
	m.refuse(
		Alike,
		"no label tells nodes like %s (%s) from nodes like %s (%s): %s",
		m.Name,
		m.describe(),
		o.Name,
		o.describe(),
		advice,
	)
	return m
}

// differs reports whether a node has a label that another lacks, or has with another value.
func (m *machine) differs(other *machine) bool {
	return slices.ContainsFunc(keysThatDiffer, func(keys string) bool {
		return slices.ContainsFunc(
			m.values(keys),
			func(value string) bool { return !slices.Contains(other.values(keys), value) },
		)
	})
}

// describe says what a node needs.
func (m *machine) describe() string {
	text := needOf(m.GPUs).String() + ": "
	if m.code != "" {
		return text + "no driver, " + m.code
	}
	text += "driver " + m.target.Driver.Version + " for " + m.target.System.ID
	if m.restricted() {
		text += ", only with " + m.flavours[0] + " modules"
	}
	return text
}
