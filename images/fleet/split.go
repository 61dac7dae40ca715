package fleet

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
)

// byDevice stands for the labels that name a node's GPUs. A node has one for each kind.
var byDevice = []string{"feature.node.kubernetes.io/pci-"}

// ofGPU is what labels say of the GPUs before a driver runs.
var ofGPU = slices.Concat([][]string{
	{"nvidia.com/driver.branch"}, {"nvidia.com/driver.modules"}, {"nvidia.com/driver.branch", "nvidia.com/driver.modules"},
}, singles(CloudNames()))

// singles are keys of which each one may tell nodes apart.
func singles(keys []string) (all [][]string) {
	for _, key := range keys {
		all = append(all, []string{key})
	}
	return all
}

// keysThatDiffer are labels that may tell nodes apart that need different settings, in the order in which they
// are tried: GPUs, groups of machines, what is there only once a driver runs (a new node would never get one),
// and the series of the kernel, which changes with the system. The whole version of the kernel is no key: its
// next update would take the driver from the nodes. (A pool of precompiled images has it anyway.)
var keysThatDiffer = slices.Concat(ofGPU[:3], [][]string{byDevice}, ofGPU[3:],
	singles([]string{"cloud.google.com/gke-os-distribution", "kubernetes.azure.com/os-sku", "node.openshift.io/os_id"}),
	singles(groups), singles([]string{"node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"}),
	singles([]string{"nvidia.com/gpu.family", "nvidia.com/gpu.product", LabelKernelMajor}), [][]string{{LabelKernelMajor, LabelKernelMinor}},
)

// part are the nodes that a selector chooses.
type part struct {
	selector map[string]string
	nodes    []int
}

// free reports whether a node gets a driver and has no pool yet.
func (d *partition) free(i int) bool { return d.answers[i].code == "" && !d.taken[i] }

// same reports whether some nodes are free and have the same answer to a question.
func (d *partition) same(some []int, question func(*answer) string) bool {
	return !slices.ContainsFunc(some, func(i int) bool {
		return !d.free(i) || question(&d.answers[i]) != question(&d.answers[some[0]])
	})
}

// settingAndClass distinguishes more than a pool has to: what may need another driver later.
func settingAndClass(a *answer) string { return a.setting() + " " + a.class }

// split makes pools of the nodes that a selector chooses. If they do not all need the same, it adds labels to
// the selector: the first that tell them all apart, or else all that tell some apart, so that one node without
// a label takes the driver from no other. Nodes that need the same for different reasons share a pool if no
// label of their GPUs tells them apart.
func (d *partition) split(whole part) {
	if d.same(whole.nodes, settingAndClass) {
		d.add(whole)
		return
	}
	if d.same(whole.nodes, (*answer).setting) {
		for _, keys := range ofGPU {
			if parts, left := d.pure(whole, d.parts(whole, keys), settingAndClass); !left {
				d.add(parts...)
				return
			}
		}
		d.add(whole)
		return
	}
	for _, some := range []bool{false, true} {
		for _, question := range []func(*answer) string{settingAndClass, (*answer).setting} {
			for all := range d.divisions(whole) {
				parts, left := d.pure(whole, all, question)
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
func (d *partition) divisions(whole part) iter.Seq[[]part] {
	return func(yield func([]part) bool) {
		one := make([][]part, len(keysThatDiffer))
		for n, keys := range keysThatDiffer {
			if one[n] = d.parts(whole, keys); !yield(one[n]) {
				return
			}
		}
		for n := range one {
			if len(one[n]) == 1 && len(one[n][0].nodes) == len(whole.nodes) {
				continue // divides nothing
			}
			for _, keys := range keysThatDiffer[n+1:] {
				var both []part
				for _, p := range one[n] {
					both = append(both, d.parts(p, keys)...)
				}
				if !yield(both) {
					return
				}
			}
		}
	}
}

// parts divides nodes by the values of labels, the largest part first. Nodes that lack one are in no part.
func (d *partition) parts(whole part, keys []string) (parts []part) {
	position := map[string]int{}
	for _, i := range whole.nodes {
		for _, value := range d.values(i, keys) {
			p := grouped(&parts, position, value, func() part { return part{selector: d.narrow(whole.selector, i, keys, value)} })
			p.nodes = append(p.nodes, i)
		}
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(len(b.nodes), len(a.nodes)) })
	return parts
}

// values returns what labels say of a node: by device the labels themselves, else one text.
func (d *partition) values(i int, keys []string) []string {
	if &keys[0] == &byDevice[0] {
		return d.devices[i]
	}
	var all []string
	for _, key := range keys {
		value := d.all[i].Labels[key]
		if value == "" {
			return nil
		}
		all = append(all, value)
	}
	return []string{strings.Join(all, ",")}
}

// narrow adds labels of a node to a selector.
func (d *partition) narrow(sel map[string]string, i int, keys []string, value string) map[string]string {
	if &keys[0] == &byDevice[0] {
		keys = []string{value}
	}
	sel = maps.Clone(sel)
	for _, key := range keys {
		sel[key] = d.all[i].Labels[key]
	}
	return sel
}

// pure returns the parts whose nodes all have the same answer to a question, none of them in two parts; left
// says that others are left over.
func (d *partition) pure(whole part, parts []part, question func(*answer) string) (found []part, left bool) {
	placed := map[int]bool{}
	for _, p := range parts {
		if !slices.ContainsFunc(p.nodes, func(i int) bool { return placed[i] }) && d.same(p.nodes, question) {
			found = append(found, p)
			for _, i := range p.nodes {
				placed[i] = true
			}
		}
	}
	return found, slices.ContainsFunc(whole.nodes, func(i int) bool { return d.free(i) && !placed[i] })
}

// deviceLabels returns the labels of node feature discovery that name a node's GPUs.
func deviceLabels(n *Node) (found []string) {
	for _, device := range n.GPUs.Devices {
		for key, value := range n.Labels {
			if value == "true" && strings.HasPrefix(key, byDevice[0]) && strings.Contains(key, fmt.Sprintf("10de_%04x", device)) {
				found = append(found, key)
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}
