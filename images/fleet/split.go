package fleet

import (
	"maps"
	"slices"

	"github.com/driver-container/driver-container/images/fleet/nodes"
)

// keysThatDiffer are labels that may tell nodes apart that need different settings, in the order in
// which they are tried: what a label says of the GPU and the kernel comes before what it says of a group
// of machines.
var keysThatDiffer = [][]string{
	{"nvidia.com/driver.branch"}, {"nvidia.com/driver.modules"}, {"nvidia.com/driver.branch", "nvidia.com/driver.modules"},
	{"nvidia.com/gpu.family"}, {"nvidia.com/gpu.product"}, {"karpenter.k8s.aws/instance-gpu-name"}, {"cloud.google.com/gke-accelerator"},
	{nodes.LabelKernelMajor, nodes.LabelKernelMinor}, {nodes.LabelKernel}, {"nvidia.com/gpu.deploy.driver"},
	{"cloud.google.com/gke-os-distribution"}, {"kubernetes.azure.com/os-sku"}, {"node.openshift.io/os_id"},
	{groups[0]}, {groups[1]}, {groups[2]}, {groups[3]}, {groups[4]},
	{"node.kubernetes.io/instance-type"}, {"beta.kubernetes.io/instance-type"},
}

// same reports whether all nodes get a driver, with the same answer to a question.
func (d *partition) same(members []int, question func(*answer) string) bool {
	return !slices.ContainsFunc(members, func(i int) bool {
		return d.answers[i].code != "" || question(&d.answers[i]) != question(&d.answers[members[0]])
	})
}

// settingAndClass distinguishes more than a pool has to: what may need another driver later.
func settingAndClass(a *answer) string { return a.setting() + " " + a.class }

// split makes pools of the nodes that a selector chooses. If they do not all need the same, it adds labels to
// the selector: the first that tell them apart completely, or else the first that tell some apart. Nodes that
// need the same driver for different reasons share a pool if no label tells them apart.
func (d *partition) split(sel map[string]string, differs []string, members []int, keys [][]string) {
	if len(d.served(members)) == 0 {
		return
	}
	if d.same(members, settingAndClass) {
		d.pools = append(d.pools, draft{sel, differs, members})
		return
	}
	for _, complete := range []bool{true, false} {
		for n, some := range keys {
			parts := d.parts(members, some)
			if len(parts) == 0 {
				continue
			}
			pure := !slices.ContainsFunc(parts, func(part []int) bool { return !d.same(part, settingAndClass) })
			if complete && !pure || !complete && len(parts) < 2 && len(parts[0]) == len(members) {
				continue
			}
			for _, part := range parts {
				narrow := maps.Clone(sel)
				for _, key := range some {
					narrow[key] = d.all[part[0]].Labels[key]
				}
				d.split(narrow, append(slices.Clone(differs), some...), part, keys[n+1:])
			}
			return
		}
	}
	if d.same(members, (*answer).setting) {
		d.pools = append(d.pools, draft{sel, differs, members})
		return
	}
	d.refuseAlike(members)
}

// parts divides nodes by the values of labels, in the order of their first nodes. It returns nil if a node
// that gets a driver lacks one of the labels. Nodes that get nothing are left out where they lack one: no
// selector with it chooses them. So are parts without any node that gets a driver.
func (d *partition) parts(members []int, keys []string) [][]int {
	var parts [][]int
	position := map[string]int{}
	for _, i := range members {
		value := ""
		for _, key := range keys {
			v, ok := d.all[i].Labels[key]
			if !ok && d.answers[i].code == "" {
				return nil
			}
			if !ok || v == "" {
				value = ""
				break
			}
			value += v + ","
		}
		if value == "" {
			if d.answers[i].code == "" {
				return nil
			}
			continue
		}
		at, ok := position[value]
		if !ok {
			at = len(parts)
			position[value] = at
			parts = append(parts, nil)
		}
		parts[at] = append(parts[at], i)
	}
	return slices.DeleteFunc(parts, func(part []int) bool { return len(d.served(part)) == 0 })
}

// refuseAlike takes the driver from nodes that have the same labels and need different settings. Nodes in a
// pool of another selector keep it.
func (d *partition) refuseAlike(members []int) {
	first := d.served(members)[0]
	one := d.answers[first]
	other := slices.IndexFunc(members, func(i int) bool { return d.answers[i].code != "" || d.answers[i].setting() != one.setting() })
	what := d.answers[members[other]].reason
	if d.answers[members[other]].code == "" {
		what = "it gets driver " + d.answers[members[other]].target.Driver.Version
	}
	for _, i := range d.served(members) {
		if d.taken[i] {
			continue
		}
		d.refuse(i, Alike, "no label tells nodes like %s (driver %s) from nodes like %s (%s): apply the rules of driver-build gpus, or label them",
			d.all[first].Name, one.target.Driver.Version, d.all[members[other]].Name, what)
	}
}
