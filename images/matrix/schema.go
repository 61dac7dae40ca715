package matrix

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/distros/dpkg"
	"github.com/driver-container/driver-container/distros/driverinfo"
)

// checkRow checks what the forms of single values do not say. key is that of the row.
func (d *decoder) checkRow(row any, key string, n *yaml.Node) {
	switch row := row.(type) {
	case *Matrix:
		d.unique(n)
		d.advisories(n)
	case *System:
		d.system(row, n)
	case *Repository:
		d.repository(row, n)
	case *Driver:
		if row.Version != "" { // else reported already; the rest needs it
			d.driver(row, n)
		}
	case *driverinfo.KernelRule:
		d.limits(row, n)
	case *driverinfo.Span:
		d.rising(n, "a range of "+key, row.From, row.Below)
	case *Exclusion:
		d.exclusion(row, n)
	case *Companion:
		d.companion(row, n)
	}
}

// rising refuses a range that is empty.
func (d *decoder) rising(n *yaml.Node, what, from, below string) {
	if from != "" && below != "" && CompareVersions(from, below) >= 0 {
		d.errorf(n, "%s begins at %s, which is not below %s", what, from, below)
	}
}

// unique refuses the second definition of a system, driver or companion.
func (d *decoder) unique(root *yaml.Node) {
	places := map[string]*yaml.Node{}
	once := func(kind, id, word string, at *yaml.Node) {
		id = kind + " " + id
		first := places[id]
		switch {
		case word == "": // reported already
		case first == nil:
			places[id] = at
		case first.Value == at.Value:
			d.errorf(at, "%s %s appears twice: first on line %d", kind, quoted(word), first.Line)
		default:
			d.errorf(at, "%s %s is the same release as %s on line %d", kind, quoted(word), first.Value, first.Line)
		}
	}
	rows := func(list string, i int) *yaml.Node { return child(root, list).Content[i] }
	for i, s := range d.m.Systems {
		row := rows("systems", i)
		once("system", s.ID, s.ID, child(row, "id"))
		for k, alias := range s.Aliases {
			at := child(row, "aliases").Content[k]
			if slices.Contains(knownSystems(), alias) {
				d.errorf(at, "alias %s is the id of a system", quoted(alias))
			}
			once("system", alias, alias, at)
		}
	}
	for i, v := range d.m.Drivers {
		once("driver", canonical(v.Version), v.Version, child(rows("drivers", i), "version"))
	}
	for i, c := range d.m.Companions {
		release := c.Name + " " + c.Version
		once("companion", release, release, rows("companions", i))
	}
	for i, c := range d.m.Interfaces {
		once("interface", c.Name, c.Name, rows("interfaces", i))
	}
}

func (d *decoder) driver(to *Driver, n *yaml.Node) {
	want := "R" + strconv.Itoa(Major(to.Version))
	if to.Branch != "" && to.Branch != want {
		d.errorf(
			child(n, "branch"),
			"branch %s of driver %s must be %s",
			quoted(to.Branch),
			to.Version,
			want,
		)
	}
	to.Branch = want
	if len(to.Archives) == 0 && to.Debian == nil {
		d.errorf(n, "driver %s has no source: it needs archives or debian", to.Version)
	}
	if to.Debian != nil {
		d.debian(to.Debian, child(n, "debian"), to.Version)
	}
	d.components(to, n)
	d.checkGuest(to, n)
	branch := Major(to.Version)
	if slices.Contains(to.Flavours, Open) && branch < FirstOpen {
		d.errorf(
			child(n, "flavours"),
			"driver %s has no open kernel modules: they came with %d",
			to.Version,
			FirstOpen,
		)
	}
	if slices.Contains(to.Flavours, Proprietary) && branch > LastProprietary {
		d.errorf(
			child(n, "flavours"),
			"driver %s has no proprietary kernel modules: they ended with %d",
			to.Version,
			LastProprietary,
		)
	}
	if len(to.Flavours) == 0 {
		to.Flavours = flavoursOf(branch)
	}
	to.Flavours = inOrder(knownFlavours, to.Flavours)
	d.breakInterfaces(to, n)
	d.patches(to, n)
	to.Advisories = d.m.AdvisoriesOf(to.Version)
}

// debian completes the package source of a driver.
func (d *decoder) debian(to *Debian, n *yaml.Node, version string) {
	for pair := range slices.Chunk(child(n, "systems").Content, 2) {
		to.Systems = append(to.Systems, pair[0].Value)
		if v := to.Versions[pair[0].Value]; v != "" && dpkg.Version(v).Upstream() != version {
			d.errorf(pair[1], "Debian version %s is not one of driver %s", quoted(v), version)
		}
	}
	if len(to.Archs) == 0 {
		to.Archs = append(to.Archs, knownArchs...)
	}
}

// limits checks the limits of kernels. Two ranges must not say the same of one kernel and flavour.
func (d *decoder) limits(to *driverinfo.KernelRule, n *yaml.Node) {
	if to.Min != "" && to.Max != "" && driverinfo.CompareKernels(to.Min, to.Max) > 0 {
		d.errorf(n, "kernel min %s is above max %s", to.Min, to.Max)
	}
	if to.Max != "" && to.Reason == "" {
		d.errorf(n, "kernel max %s has no reason: say where it comes from", to.Max)
	}
	for i, b := range to.Broken {
		at := child(n, "broken").Content
		d.rising(at[i], "a range of broken kernels", b.From, b.Below)
		for k, other := range to.Broken[:i] {
			if b.From != "" && other.From != "" && overlap(b, other) {
				d.errorf(
					at[i],
					"the kernels %s are in two ranges of the same flavour: the other is in line %d (%s)",
					b.Range(),
					at[k].Line,
					other.Range(),
				)
			}
		}
	}
}

// overlap reports whether two ranges have a kernel and a flavour in common.
func overlap(a, b driverinfo.Broken) bool {
	if (a.Below != "" && driverinfo.CompareKernels(b.From, a.Below) >= 0) ||
		(b.Below != "" && driverinfo.CompareKernels(a.From, b.Below) >= 0) {
		return false
	}
	return slices.ContainsFunc(
		knownFlavours,
		func(f string) bool { return a.Affects(f) && b.Affects(f) },
	)
}

func (d *decoder) exclusion(x *Exclusion, n *yaml.Node) {
	if child(n, "system") == n && child(n, "driver") == n && child(n, "arch") == n {
		d.errorf(n, "an exclusion names no system, driver or arch: it would exclude everything")
	}
	versions := d.m.versions()
	isMatch := func(v string) bool { return matches(x.Driver, v) }
	if !slices.ContainsFunc(versions, isMatch) {
		near := suggest(strings.TrimSuffix(x.Driver, ".*"), versions)
		d.errorf(child(n, "driver"), "driver %s is not in drivers%s", quoted(x.Driver), near)
	}
}

// vGPU guest drivers come in archives with names of their own. The owner of the cloud is in the
// name of some: NVIDIA-Linux-x86_64-550.144.06-grid-azure.run. The archive of NVIDIA's licence
// portal and that of Google have none.
var (
	guestArchive = regexp.MustCompile(`-grid(?:-(aws|azure|gcp|google))?\.run$`)
	hostArchive  = regexp.MustCompile(`-vgpu-[a-z]+\.run$`)
	guestCloud   = map[string]string{
		"aws": driverinfo.VGPUAWS, "azure": driverinfo.VGPUAzure, "gcp": driverinfo.VGPUGoogle, "google": driverinfo.VGPUGoogle,
	}
)

// checkGuest compares the key vgpu of a driver with the rest of the row. A row whose archive is one
// of a vGPU guest driver must say so: images of such a row do not go to public registries.
func (d *decoder) checkGuest(to *Driver, n *yaml.Node) {
	for arch, a := range to.Archives {
		name := path.Base(a.URL)
		cloud := guestArchive.FindStringSubmatch(name)
		switch {
		case hostArchive.MatchString(name):
			d.errorf(
				n,
				"the archive %s is the driver of a vGPU host: images have guest drivers, whose names end in -grid.run",
				quoted(name),
			)
		case to.VGPU == "" && cloud != nil:
			d.errorf(
				n,
				"the archive %s is a vGPU guest driver: add the key vgpu, which says whose licence it needs",
				quoted(name),
			)
		case to.VGPU == "":
		case cloud == nil && a.URL != "":
			d.errorf(
				n,
				"driver %s has the key vgpu, but the name of its archive %s does not end in -grid.run or -grid-<cloud>.run",
				to.Version,
				quoted(name),
			)
		case arch != "amd64":
			d.errorf(
				n,
				"driver %s is a vGPU guest driver, and NVIDIA has these for amd64 only: remove the archive for %s",
				to.Version,
				arch,
			)
		case cloud != nil && cloud[1] != "" && guestCloud[cloud[1]] != to.VGPU:
			d.errorf(
				n,
				"the archive %s is licensed for %s, the key vgpu says %s",
				quoted(name),
				guestCloud[cloud[1]],
				to.VGPU,
			)
		}
	}
	switch {
	case to.VGPU == "":
	case to.Debian != nil:
		d.errorf(
			n,
			"driver %s has both vgpu and debian: Debian has no packages of vGPU guest drivers",
			to.Version,
		)
	case len(to.Components) > 0:
		d.errorf(
			n,
			"driver %s has both vgpu and components: a vGPU guest has no NVLink switches",
			to.Version,
		)
	}
}
