package fleet

import (
	"cmp"
	"fmt"
	"slices"
)

// refuseAlike takes the driver from nodes of a base that no selector could choose alone, and says which node is
// in the way. Nodes in a pool of another base keep it.
func (d *partition) refuseAlike(b base) {
	reasons, refused := map[string]answer{}, map[int]answer{}
	for _, i := range b.own {
		if !d.free(i) {
			continue
		}
		kind := settingAndClass(&d.answers[i])
		if _, ok := reasons[kind]; !ok {
			reasons[kind] = d.alike(i, b.nodes)
		}
		refused[i] = reasons[kind]
	}
	for i, why := range refused {
		d.answers[i] = why
	}
}

// alike says from which other node labels do not tell a node.
func (d *partition) alike(i int, among []int) answer {
	a := &d.answers[i]
	differs := func(k int) bool { return d.answers[k].code != "" || d.answers[k].setting() != a.setting() }
	other := slices.IndexFunc(among, func(k int) bool { return differs(k) && !d.told(i, k) })
	if other < 0 {
		other = slices.IndexFunc(among, differs)
	}
	if other < 0 {
		k := among[slices.IndexFunc(among, func(k int) bool { return d.taken[k] })]
		return answer{code: NotLabelled, reason: fmt.Sprintf("its labels are too few to tell it from %s, which is in another pool: "+
			"label it as that node is", d.all[k].Name)}
	}
	k := among[other]
	return answer{code: Alike, reason: fmt.Sprintf("no label tells nodes like %s (%s) from nodes like %s (%s): %s",
		d.all[i].Name, d.describe(i), d.all[k].Name, d.describe(k), advice(&d.all[i]))}
}

// told reports whether a node has a label that another lacks, or has with another value.
func (d *partition) told(i, other int) bool {
	return slices.ContainsFunc(keysThatDiffer, func(keys []string) bool {
		return slices.ContainsFunc(d.values(i, keys), func(value string) bool { return !slices.Contains(d.values(other, keys), value) })
	})
}

// advice says which labels a node needs.
func advice(n *Node) string {
	if len(deviceLabels(n)) == 0 {
		return "let node feature discovery label the devices of all nodes (docs/fleet.md), apply the rules of driver-build gpus, or label them"
	}
	return "apply the rules of driver-build gpus, or label them"
}

// describe says what a node needs.
func (d *partition) describe(i int) string {
	a := &d.answers[i]
	text := cmp.Or(a.gpus, needOf(d.all[i].GPUs).String()) + ": "
	if a.code != "" {
		return text + "no driver, " + a.code
	}
	text += "driver " + a.target.Driver.Version + " for " + a.target.System.ID
	if a.restricted {
		text += ", only with " + a.flavours[0] + " modules"
	}
	return text
}
