package matrix

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/distros/dpkg"
	"github.com/driver-container/driver-container/distros/driverinfo"
)

// AllCompanions in Selection.Companions stands for every companion that fits.
const AllCompanions = "all"

// Companion is a release of a companion: the sources of a kernel module that is compiled against
// the driver's modules. See driverinfo.Companion.
type Companion struct {
	Name    string `m:"name!" of:"companion"`     // driverinfo.NvidiaFS, driverinfo.GDRDrv
	Version string `m:"version!" of:"version-of"` // "2.13.5"
	// an archive of its sources; nil: Debian's package
	Archive *Archive `m:"archive" of:"source-url"`
	Debian  struct {
		// with its sources: "nvidia-fs-dkms"
		Package string `m:"package!" of:"package"`
		// whose archives have it, with the version there
		Systems map[string]string `m:"systems!" of:"system:debian"`
	} `m:"debian"`
	Drivers struct {
		From  string `m:"from" of:"range"`  // the first driver that it fits, "" for any: "535"
		Below string `m:"below" of:"range"` // the first driver that it no longer fits; "": none
	} `m:"drivers"`
	Archs []string `m:"archs" of:"arch"` // architectures that it can be used on
	// of the driver's modules that it can be compiled against; empty: all
	Flavours []string `m:"flavours" of:"flavour"`
	Licence  string   `m:"licence!" of:"licence"` // SPDX expression of the module
	Reason   string   `m:"reason!"`               // where the limits come from

	Named bool // of a target's: Selection.Companions has its name, so it may not be left out
}

// Wants returns the wanted package of a system in apt's notation: "nvidia-fs-dkms=2.13.5-1"; "" if
// the companion comes as an archive.
func (c Companion) Wants(system string) string {
	if c.Archive != nil {
		return ""
	}
	return c.Debian.Package + "=" + c.Debian.Systems[system]
}

// misfit returns why a companion cannot be used for a target; "" if it can.
func (c Companion) misfit(t Target) string {
	switch {
	case !slices.Contains(c.Archs, t.Arch):
		return "is not made for " + t.Arch
	case !inRange(t.Driver.Version, driverinfo.Span{From: c.Drivers.From}):
		return "needs driver " + c.Drivers.From + " or newer"
	case !inRange(t.Driver.Version, driverinfo.Span{Below: c.Drivers.Below}):
		return "needs a driver below " + c.Drivers.Below
	case len(c.Flavours) > 0 && !slices.ContainsFunc(c.Flavours, func(f string) bool { return slices.Contains(t.Flavours, f) }):
		return "needs the " + strings.Join(c.Flavours, " or ") + " modules"
	case c.Archive == nil && c.Debian.Systems[t.System.ID] == "":
		return "is in no archive of " + t.System.ID
	}
	return ""
}

// companions returns the newest companions of the names that fit a target, by name, and an error
// for each name that none fits, unless all are asked for.
func (m *Matrix) companions(
	t Target,
	names []string,
) (fitting []Companion, missing []*IncompatibleError) {
	for _, name := range slices.Sorted(slices.Values(driverinfo.Companions())) {
		named := slices.Contains(names, name)
		if !named && !slices.Contains(names, AllCompanions) {
			continue
		}
		var best Companion
		var why []string
		for _, c := range m.Companions {
			misfit := c.misfit(t)
			switch {
			case c.Name != name:
			case misfit != "":
				why = append(why, c.Version+" "+misfit)
			case CompareVersions(c.Version, best.Version) > 0:
				best = c
			}
		}
		if best.Name != "" {
			best.Named = named
			fitting = append(fitting, best)
		} else if named {
			missing = append(missing, &IncompatibleError{
				System: t.System.ID, Driver: t.Driver.Version, Arch: t.Arch, Rule: "no-companion",
				Reason: fmt.Sprintf("no %s fits: %s", name, cmp.Or(strings.Join(why, "; "), "the matrix has none")),
			})
		}
	}
	return fitting, missing
}

// matches reports whether a pattern of drivers covers a version or another pattern: "" all, "418.*"
// a prefix, else a version, in whatever form (570.86.5 is 570.86.05).
func matches(pattern, version string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(version, prefix)
	}
	return pattern == "" ||
		!strings.HasSuffix(version, "*") && canonical(pattern) == canonical(version)
}

func (d *decoder) companion(c *Companion, n *yaml.Node) {
	if len(c.Archs) == 0 {
		c.Archs = slices.Clone(knownArchs)
	}
	if (c.Archive == nil) == (child(n, "debian") == n) {
		d.errorf(n, "companion %s %s needs one of archive and debian", c.Name, c.Version)
	}
	what := "companion " + c.Name + " " + c.Version + ": the range of drivers"
	d.rising(n, what, c.Drivers.From, c.Drivers.Below)
	for system, v := range c.Debian.Systems {
		upstream, _, _ := strings.Cut(dpkg.Version(v).Upstream(), "~")
		if v == "" || c.Version == "" || upstream == c.Version {
			continue
		}
		at := child(child(child(n, "debian"), "systems"), system)
		d.errorf(at, "Debian version %s is not one of %s %s", quoted(v), c.Name, c.Version)
	}
}

// Interface is a change of an interface of the kernel, and the drivers whose modules use it as it
// was. It is the same break for all of them: each gets it among its KernelRule.Broken.
type Interface struct {
	Name    string            `m:"name!"`                // of the function: "pci_resize_resource"
	Kernels []driverinfo.Span `m:"kernels!" of:"kernel"` // that have it in its new form
	// versions of the driver that call it in the old form, whatever the kernel
	Drivers  []driverinfo.Span `m:"drivers!" of:"range"`
	Flavours []string          `m:"flavours" of:"flavour"` // of the modules that do; empty: all
	Reason   string            `m:"reason!"`               // what happens there
	Source   string            `m:"source!"`               // who says so
}

// Calls reports whether a version of the driver calls the interface in its old form.
func (c Interface) Calls(version string) bool {
	return slices.ContainsFunc(
		c.Drivers,
		func(s driverinfo.Span) bool { return inRange(version, s) },
	)
}

// breaks returns the ranges of kernels on which a driver's modules do not compile; nil if it is not
// concerned.
func (c Interface) breaks(d *Driver) (all []driverinfo.Broken) {
	flavours := inOrder(d.Flavours, c.Flavours)
	if !c.Calls(d.Version) || len(c.Flavours) > 0 && len(flavours) == 0 {
		return nil
	}
	for _, k := range c.Kernels {
		all = append(all, driverinfo.Broken{From: k.From, Below: k.Below, Flavours: flavours, Reason: c.Reason})
	}
	return all
}

// breakInterfaces adds the interfaces that changed to what breaks a driver.
func (d *decoder) breakInterfaces(to *Driver, n *yaml.Node) {
	for _, c := range d.m.Interfaces {
		for _, b := range c.breaks(to) {
			isSame := func(own driverinfo.Broken) bool { return overlap(own, b) }
			if slices.ContainsFunc(to.Kernel.Broken, isSame) {
				d.errorf(n, "driver %s says in kernel.broken what interface %s says of kernels %s: remove one",
					to.Version, quoted(c.Name), b.Range())
				continue
			}
			to.Kernel.Broken = append(to.Kernel.Broken, b)
		}
	}
}
