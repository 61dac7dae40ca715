package matrix

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	goversion "github.com/hashicorp/go-version"
	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/distros/dpkg"
	"github.com/driver-container/driver-container/distros/driverinfo"
)

// AllCompanions in Selection.Companions stands for every companion that fits.
const AllCompanions = "all"

// Companion is a release of a companion: the sources of a kernel module that is compiled against the driver's
// modules. See driverinfo.Companion.
type Companion struct {
	Name     string   // driverinfo.NvidiaFS, driverinfo.GDRDrv
	Version  string   // "2.13.5"
	Archive  *Archive // an archive of its sources; nil: Debian's package
	Package  string   // Debian's package with its sources: "nvidia-fs-dkms"
	Systems  []string // whose archives have the package, in the order of the file
	Versions map[string]string
	Archs    []string // architectures that it can be used on
	From     string   // the first driver that it fits, "" for any: "535"
	Below    string   // the first driver that it no longer fits; "": none
	Flavours []string // of the driver's modules that it can be compiled against; empty: all
	Licence  string   // SPDX expression of the module
	Reason   string   // where the limits come from

	Named bool // of a target's: Selection.Companions has its name, so it may not be left out
}

// Wants returns the wanted package of a system in apt's notation: "nvidia-fs-dkms=2.13.5-1"; "" if the
// companion comes as an archive.
func (c Companion) Wants(system string) string {
	if c.Archive != nil {
		return ""
	}
	return c.Package + "=" + c.Versions[system]
}

// misfit returns why a companion cannot be used for a target; "" if it can.
func (c Companion) misfit(t Target) string {
	switch {
	case !slices.Contains(c.Archs, t.Arch):
		return "is not made for " + t.Arch
	case c.From != "" && CompareVersions(t.Driver.Version, c.From) < 0:
		return "needs driver " + c.From + " or newer"
	case c.Below != "" && CompareVersions(t.Driver.Version, c.Below) >= 0:
		return "needs a driver below " + c.Below
	case len(c.Flavours) > 0 && !slices.ContainsFunc(c.Flavours, func(f string) bool { return slices.Contains(t.Flavours, f) }):
		return "needs the " + strings.Join(c.Flavours, " or ") + " modules"
	case c.Archive == nil && !slices.Contains(c.Systems, t.System.ID):
		return "is in no archive of " + t.System.ID
	}
	return ""
}

// companions returns the newest companions of the names that fit a target, by name, and an error for each
// name that none fits, unless all are asked for.
func (m *Matrix) companions(t Target, names []string) (fitting []Companion, missing []*IncompatibleError) {
	for _, name := range slices.Sorted(slices.Values(driverinfo.Companions())) {
		named := slices.Contains(names, name)
		if !named && !slices.Contains(names, AllCompanions) {
			continue
		}
		best, why := -1, []string(nil)
		for i, c := range m.Companions {
			if c.Name != name {
				continue
			}
			if misfit := c.misfit(t); misfit != "" {
				why = append(why, c.Version+" "+misfit)
			} else if best < 0 || CompareVersions(c.Version, m.Companions[best].Version) > 0 {
				best = i
			}
		}
		switch {
		case best >= 0:
			c := m.Companions[best]
			c.Named = named
			fitting = append(fitting, c)
		case named:
			if len(why) == 0 {
				why = []string{"the matrix has none"}
			}
			missing = append(missing, &IncompatibleError{
				System: t.System.ID, Driver: t.Driver.Version, Arch: t.Arch, Rule: "no-companion",
				Reason: fmt.Sprintf("no %s fits: %s", name, strings.Join(why, "; ")),
			})
		}
	}
	return fitting, missing
}

var (
	companionVersion = regexp.MustCompile(`^[0-9]{1,4}(\.[0-9]{1,4}){1,3}$`)
	driverLimit      = regexp.MustCompile(`^[1-9][0-9]{2,3}(\.[0-9]{1,4}){0,2}$`)
)

// CompareVersions compares versions of dots and numbers, whose form was checked: 418.87.1 equals 418.87.01.
func CompareVersions(a, b string) int {
	x, errX := goversion.NewVersion(a)
	y, errY := goversion.NewVersion(b)
	if errX != nil || errY != nil {
		return strings.Compare(a, b)
	}
	return x.Compare(y)
}

// companion reads one entry of companions.
func (d *decoder) companion(to *Companion, n *yaml.Node) {
	d.mapping(n, "a companion",
		key{name: "name", required: true, read: d.text("name", &to.Name, oneOf(driverinfo.Companions()))},
		key{name: "version", required: true, read: d.text("version", &to.Version, shape(companionVersion, "is no version, such as 2.13.5"))},
		key{name: "archive", read: func(n *yaml.Node) {
			to.Archive = new(Archive)
			d.mapping(n, "the archive of a companion",
				key{name: "url", required: true, read: d.text("url", &to.Archive.URL, sourceURL)},
				key{name: "sha256", required: true, read: d.text("sha256", &to.Archive.SHA256, sha256Text)},
				key{name: "size", read: d.size("size", &to.Archive.Size)},
			)
		}},
		key{name: "debian", read: func(n *yaml.Node) {
			d.mapping(n, "debian of a companion",
				key{name: "package", required: true, read: d.text("package", &to.Package, shape(packageShape, "is no package name"))},
				key{name: "systems", required: true, read: func(n *yaml.Node) { d.companionSystems(to, n) }},
			)
		}},
		key{name: "archs", read: d.texts("archs", &to.Archs, oneOf(knownArchs))},
		key{name: "drivers", read: func(n *yaml.Node) {
			d.mapping(n, "drivers of a companion",
				key{name: "from", read: d.text("from", &to.From, driverRange)},
				key{name: "below", read: d.text("below", &to.Below, driverRange)},
			)
		}},
		key{name: "flavours", read: d.texts("flavours", &to.Flavours, oneOf(knownFlavours))},
		key{name: "licence", required: true, read: d.text("licence", &to.Licence, shape(licenceShape, "is no SPDX expression, such as MIT"))},
		key{name: "reason", required: true, read: d.text("reason", &to.Reason)},
	)
	if len(to.Archs) == 0 {
		to.Archs = slices.Clone(knownArchs)
	}
	if to.Name == "" || to.Version == "" {
		return // reported already
	}
	if (to.Archive == nil) == (to.Package == "") {
		d.errorf(n, "companion %s %s needs one of archive and debian", to.Name, to.Version)
	}
	if to.From != "" && to.Below != "" && CompareVersions(to.From, to.Below) >= 0 {
		d.errorf(n, "companion %s %s: drivers from %s is not below %s", to.Name, to.Version, to.From, to.Below)
	}
}

// companionSystems reads "system: Debian version".
func (d *decoder) companionSystems(to *Companion, n *yaml.Node) {
	to.Versions = map[string]string{}
	d.pairs(n, "systems of a companion", func(id string, at, value *yaml.Node) {
		var v string
		d.text("the Debian version", &v, shape(debianShape, "is no Debian version"))(value)
		if v == "" {
			return
		}
		upstream, _, _ := strings.Cut(dpkg.Version(v).Upstream(), "~")
		if to.Version != "" && upstream != to.Version {
			d.errorf(value, "Debian version %s is not one of %s %s", quoted(v), to.Name, to.Version)
		}
		to.Systems, to.Versions[id] = append(to.Systems, id), v
		d.refs = append(d.refs, reference{kind: kindSystem, word: id, at: at})
	})
}

// sourceURL accepts the URL of an archive of sources.
func sourceURL(s string) string {
	if wrong := webURL(s); wrong != "" {
		return wrong
	}
	if u, err := url.Parse(s); err != nil || !strings.HasSuffix(u.Path, ".tar.gz") && !strings.HasSuffix(u.Path, ".tar.xz") {
		return "must have a path that ends in .tar.gz or .tar.xz"
	}
	return ""
}

// uniqueCompanion refuses the second entry of a release.
func (d *decoder) uniqueCompanion(m *Matrix, c Companion, at *yaml.Node) {
	if slices.ContainsFunc(m.Companions, func(o Companion) bool { return o.Name == c.Name && o.Version == c.Version }) && c.Name != "" {
		d.errorf(at, "companion %s %s appears twice", c.Name, c.Version)
	}
}
