package matrix

import (
	"slices"
	"strconv"

	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/distros/driverinfo"
)

// matrix reads the top level.
func (d *decoder) matrix(m *Matrix, n *yaml.Node) {
	m.Defaults.Profile = ProfileFull
	d.changed = d.interfaces(n)
	m.Interfaces = d.changed
	d.mapping(n, "the matrix",
		key{name: "defaults", read: func(n *yaml.Node) { d.defaults(&m.Defaults, n) }},
		key{name: "systems", required: true, read: d.list("systems", func(n *yaml.Node) {
			var s System
			d.system(&s, n)
			m.Systems = append(m.Systems, s)
		})},
		key{name: "drivers", required: true, read: d.list("drivers", func(n *yaml.Node) {
			var v Driver
			d.driver(&v, n)
			m.Drivers = append(m.Drivers, v)
		})},
		key{name: "companions", read: d.list("companions", func(n *yaml.Node) {
			var c Companion
			d.companion(&c, n)
			d.uniqueCompanion(m, c, n)
			m.Companions = append(m.Companions, c)
		})},
		key{name: "exclude", read: d.list("exclude", func(n *yaml.Node) {
			var x Exclusion
			d.exclusion(&x, n)
			m.Exclude = append(m.Exclude, x)
		})},
		key{name: "advisories", read: d.advisories(&m.Advisories)},
		key{name: "interfaces", read: func(*yaml.Node) {}}, // read above
	)
}

func (d *decoder) defaults(to *Defaults, n *yaml.Node) {
	d.mapping(n, "defaults",
		key{name: "repository", read: d.text("repository", &to.Repository, repositoryName)},
		key{name: "profile", read: d.text("profile", &to.Profile, oneOf(Profiles()))},
		key{name: "mirrors", read: func(n *yaml.Node) {
			to.Mirrors = map[string][]string{}
			d.pairs(n, "mirrors", func(host string, at, value *yaml.Node) {
				if wrong := registryName(host); wrong != "" {
					d.errorf(at, "key %s of mirrors %s", quoted(host), wrong)
				}
				var hosts []string
				d.texts("the mirrors of "+quoted(host), &hosts, registryName)(value)
				to.Mirrors[host] = hosts
			})
		}},
	)
}

func (d *decoder) driver(to *Driver, n *yaml.Node) {
	var branchAt, flavoursAt, kernelAt *yaml.Node
	var patches []patchEntry
	d.mapping(n, "a driver",
		key{name: "version", required: true, read: d.readDefinition(kindDriver, &to.Version, driverVersion)},
		key{name: "branch", read: func(n *yaml.Node) { branchAt = n; d.text("branch", &to.Branch)(n) }},
		key{name: "archives", read: func(n *yaml.Node) { d.archives(&to.Archives, n) }},
		key{name: "components", read: func(n *yaml.Node) { d.components(&to.Components, n, &to.Version) }},
		key{name: "flavours", read: func(n *yaml.Node) {
			flavoursAt = n
			d.texts("flavours", &to.Flavours, oneOf(knownFlavours))(n)
		}},
		key{name: "vgpu", read: d.text("vgpu", &to.VGPU, oneOf(driverinfo.VGPULicences()))},
		key{name: "kernel", read: func(n *yaml.Node) { kernelAt = n; d.limits(&to.Kernel, n) }},
		key{name: "patches", read: d.patches(&patches)},
		key{name: "cuda", read: d.text("cuda", &to.CUDA, shape(cudaShape, "is no version of CUDA, such as 12.8"))},
		key{name: "debian", read: func(n *yaml.Node) {
			to.Debian = new(Debian)
			d.debian(to.Debian, n, &to.Version)
		}},
	)
	if to.Version == "" {
		return // reported already; the rest needs it
	}
	want := "R" + strconv.Itoa(major(to.Version))
	if to.Branch != "" && to.Branch != want {
		d.errorf(branchAt, "branch %s of driver %s must be %s", quoted(to.Branch), to.Version, want)
	}
	to.Branch = want
	if len(to.Archives) == 0 && to.Debian == nil {
		d.errorf(n, "driver %s has no source: it needs archives or debian", to.Version)
	}
	d.checkGuest(to, n)
	if slices.Contains(to.Flavours, Open) && major(to.Version) < firstOpen {
		d.errorf(flavoursAt, "driver %s has no open kernel modules: they came with %d", to.Version, firstOpen)
	}
	if len(to.Flavours) == 0 {
		to.Flavours = []string{Proprietary}
		if major(to.Version) >= firstOpen {
			to.Flavours = []string{Proprietary, Open}
		}
	}
	slices.SortFunc(to.Flavours, func(a, b string) int {
		return slices.Index(knownFlavours, a) - slices.Index(knownFlavours, b)
	})
	d.breakInterfaces(to, n)
	d.checkPatches(to, patches, kernelAt)
}

func (d *decoder) archives(to *map[string]Archive, n *yaml.Node) {
	*to = map[string]Archive{}
	d.pairs(n, "archives", func(arch string, at, value *yaml.Node) {
		if wrong := oneOf(knownArchs)(arch); wrong != "" {
			d.errorf(at, "architecture %s %s", quoted(arch), wrong)
		}
		var a Archive
		d.mapping(value, "an archive",
			key{name: "url", required: true, read: d.text("url", &a.URL, archiveURL)},
			key{name: "sha256", required: true, read: d.text("sha256", &a.SHA256, sha256Text)},
			key{name: "size", read: d.size("size", &a.Size)},
		)
		(*to)[arch] = a
	})
}

func (d *decoder) limits(to *driverinfo.KernelRule, n *yaml.Node) {
	d.mapping(n, "kernel",
		key{name: "min", read: d.text("min", &to.Min, kernelSeries)},
		key{name: "max", read: d.text("max", &to.Max, kernelSeries)},
		key{name: "reason", read: d.text("reason", &to.Reason)},
		key{name: "broken", read: d.broken(&to.Broken)},
	)
	if to.Min != "" && to.Max != "" && driverinfo.CompareKernels(to.Min, to.Max) > 0 {
		d.errorf(n, "kernel min %s is above max %s", to.Min, to.Max)
	}
	if to.Max != "" && to.Reason == "" {
		d.errorf(n, "kernel max %s has no reason: say where it comes from", to.Max)
	}
}

// broken reads ranges of kernels. Two of them must not say the same of one kernel and flavour.
func (d *decoder) broken(to *[]driverinfo.Broken) reader {
	var lines []int
	return d.list("broken", func(n *yaml.Node) {
		var b driverinfo.Broken
		d.mapping(n, "a range of broken kernels",
			key{name: "from", required: true, read: d.text("from", &b.From, kernelSeries)},
			key{name: "below", read: d.text("below", &b.Below, kernelSeries)},
			key{name: "flavours", read: d.texts("flavours", &b.Flavours, oneOf(knownFlavours))},
			key{name: "reason", required: true, read: d.text("reason", &b.Reason)},
		)
		if b.From == "" {
			return // reported already
		}
		if b.Below != "" && driverinfo.CompareKernels(b.From, b.Below) >= 0 {
			d.errorf(n, "a range of broken kernels begins at %s, which is not below %s", b.From, b.Below)
		}
		for i, other := range *to {
			if overlap(b, other) {
				d.errorf(n, "the kernels %s are in two ranges of the same flavour: the other is in line %d (%s)", b.Range(), lines[i], other.Range())
			}
		}
		*to, lines = append(*to, b), append(lines, n.Line)
	})
}

// overlap reports whether two ranges have a kernel and a flavour in common.
func overlap(a, b driverinfo.Broken) bool {
	if (a.Below != "" && driverinfo.CompareKernels(b.From, a.Below) >= 0) || (b.Below != "" && driverinfo.CompareKernels(a.From, b.Below) >= 0) {
		return false
	}
	return slices.ContainsFunc(knownFlavours, func(f string) bool { return a.Affects(f) && b.Affects(f) })
}

func (d *decoder) exclusion(to *Exclusion, n *yaml.Node) {
	d.mapping(n, "an exclusion",
		key{name: "system", read: d.readReference(kindSystem, &to.System)},
		key{name: "driver", read: d.readReference(kindPattern, &to.Driver,
			shape(patternShape, "is neither a driver version nor a pattern such as 418.*"))},
		key{name: "arch", read: d.text("arch", &to.Arch, oneOf(knownArchs))},
		key{name: "reason", required: true, read: d.text("reason", &to.Reason)},
	)
	if to.System == "" && to.Driver == "" && to.Arch == "" && n.Kind == yaml.MappingNode && !d.tooManyErrors() {
		d.errorf(n, "an exclusion names no system, driver or arch: it would exclude everything")
	}
}
