package batch

// Order returns groups in the order in which a build of all of them waits least. First come groups whose
// large layers are all new: built at the same time, they make different layers and do not wait for each
// other. Then come those that bring one layer more, and at the end those that only put finished layers
// together, which takes hardly any memory.
func Order(groups []Group) []Group {
	made := map[string]bool{}
	left := groups
	ordered := make([]Group, 0, len(groups))
	for _, first := range []func(fresh, all int) bool{
		func(fresh, all int) bool { return fresh == all },
		func(fresh, _ int) bool { return fresh > 0 },
		func(int, int) bool { return true },
	} {
		var later []Group
		for _, g := range left {
			keys := g.layers()
			fresh := 0
			for _, k := range keys {
				if !made[k] {
					fresh++
				}
			}
			if !first(fresh, len(keys)) {
				later = append(later, g)
				continue
			}
			for _, k := range keys {
				made[k] = true
			}
			ordered = append(ordered, g)
		}
		left = later
	}
	return ordered
}

// layers names the large layers of a group, as far as they are known before it is planned: the packages of
// its systems, the driver with the folders of their libraries, and modules.
func (g Group) layers() (keys []string) {
	for _, im := range g.Images {
		t := im.Target
		keys = append(keys, "packages "+Platform(t), "driver "+t.Driver.Version+" "+t.Arch+" "+t.Distro.LibDir(t.Arch))
		for _, k := range im.Plan.Kernels {
			keys = append(keys, "modules "+t.Driver.Version+" "+Platform(t)+" "+k)
		}
	}
	return keys
}
