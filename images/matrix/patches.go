package matrix

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/patch"
)

// maxPatches bounds the patches of a driver.
const maxPatches = 32

// The sources of a driver that a patch may be for.
const (
	SourceArchive  = "archive"  // a .run archive, or one of NVIDIA's redist folder
	SourcePackages = "packages" // Debian's, which have changes of Debian already
)

// Patch is a change to the sources of a driver's kernel modules, which makes them work on some kernels. The
// changed sources still compile on all others.
type Patch struct {
	Name   string // of the file, without its ending: "open-pci-resize-resource"
	File   string // beside the matrix; "" with a URL
	URL    string
	SHA256 string
	Text   string // of the file; "" with a URL, or if nothing reads files

	Kernels  []driverinfo.Span // for which it is needed
	Flavours []string          // that it changes
	Sources  []string          // that need it
	Licence  string            // an SPDX expression
	Reason   string            // what it changes
	Origin   string            // where the change comes from
}

var (
	patchName    = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{0,63}$`)
	licenceShape = regexp.MustCompile(`^\(?[A-Za-z0-9.+-]+( (AND|OR|WITH) \(?[A-Za-z0-9.+-]+\)?)*$`)
)

// PatchFolder returns the folder of the sources of a flavour, as NVIDIA's archives and repository have it.
func PatchFolder(flavour string) string {
	if flavour == Open {
		return "kernel-open"
	}
	return "kernel"
}

// patchFile accepts the path of a file beside the matrix, or in a folder there.
func patchFile(s string) string {
	if !fs.ValidPath(s) || strings.Contains(s, `\\`) {
		return "is no path beside the matrix, such as patches/name.patch"
	}
	return patchEnding(s)
}

func patchEnding(s string) string {
	if ext := path.Ext(s); ext != ".patch" && ext != ".diff" {
		return "must end in .patch or .diff"
	}
	return ""
}

// patchEntry is a patch with its place in the file.
type patchEntry struct {
	Patch

	at     *yaml.Node
	mends  string       // the interface whose change it mends, in place of kernels and flavours
	ranges []*yaml.Node // where Kernels are
	parsed *patch.Patch // nil without a text
}

func (d *decoder) patches(to *[]patchEntry) reader {
	return d.list("patches", func(n *yaml.Node) {
		if len(*to) == maxPatches {
			d.errorf(n, "a driver has more than %d patches", maxPatches)
		}
		p := patchEntry{at: n}
		var sum *yaml.Node
		d.mapping(n, "a patch",
			key{name: "file", read: d.text("file", &p.File, patchFile)},
			key{name: "url", read: d.text("url", &p.URL, webURL, patchEnding)},
			key{name: "sha256", required: true, read: func(n *yaml.Node) { sum = n; d.text("sha256", &p.SHA256, sha256Text)(n) }},
			key{name: "mends", read: d.text("mends", &p.mends)},
			key{name: "kernels", read: d.list("kernels", func(n *yaml.Node) {
				if d.span(&p.Kernels, n, "kernels", kernelSeries) {
					p.ranges = append(p.ranges, n)
				}
			})},
			key{name: "flavours", read: d.texts("flavours", &p.Flavours, oneOf(knownFlavours))},
			key{name: "sources", read: d.texts("sources", &p.Sources, oneOf([]string{SourceArchive, SourcePackages}))},
			key{name: "licence", required: true, read: d.text("licence", &p.Licence, shape(licenceShape, "is no SPDX expression, such as MIT or GPL-2.0-only"))},
			key{name: "reason", required: true, read: d.text("reason", &p.Reason)},
			key{name: "origin", required: true, read: d.text("origin", &p.Origin)},
		)
		switch {
		case n.Kind != yaml.MappingNode || d.tooManyErrors():
			return
		case (p.File == "") == (p.URL == ""):
			d.errorf(n, "a patch needs either file, beside the matrix, or url")
			return
		case p.mends != "" && len(p.Kernels)+len(p.Flavours) > 0 || p.mends == "" && len(p.Kernels) == 0:
			d.errorf(n, "a patch needs either kernels, or mends with the interface, which says kernels and flavours")
			return
		}
		base := path.Base(p.File + p.URL)
		if p.Name = strings.TrimSuffix(base, path.Ext(base)); !patchName.MatchString(p.Name) {
			d.errorf(n, "the name of patch %s must consist of small letters, digits, dots and hyphens", quoted(base))
		}
		if p.File != "" && p.SHA256 != "" && d.files.Patch != nil {
			d.readPatch(&p, sum)
		}
		*to = append(*to, p)
	})
}

// readPatch reads the file of a patch, and compares it with its checksum.
func (d *decoder) readPatch(p *patchEntry, sumAt *yaml.Node) {
	text, err := d.files.Patch(p.File)
	if err != nil {
		d.errorf(p.at, "patch %s cannot be read: %v", quoted(p.File), err)
		return
	}
	sum := sha256.Sum256([]byte(text))
	if got := hex.EncodeToString(sum[:]); got != p.SHA256 {
		d.errorf(sumAt, "patch %s has sha256 %s: correct one of them", quoted(p.File), got)
		return
	}
	p.Text = text
}

// checkPatches completes the patches of a driver and lifts the limits of its kernels that they mend.
func (d *decoder) checkPatches(to *Driver, all []patchEntry, kernelAt *yaml.Node) {
	to.Unpatched = to.Kernel
	for i := range all {
		p := &all[i]
		if !d.completePatch(to, p) {
			continue
		}
		for _, other := range all[:i] {
			if other.Name == p.Name {
				d.errorf(p.at, "patch %s appears twice: first on line %d", quoted(p.Name), other.at.Line)
			}
			if other.parsed == nil || p.parsed == nil || !intersect(other.Flavours, p.Flavours) || !intersect(other.Sources, p.Sources) {
				continue
			}
			if place := other.parsed.Overlap(p.parsed); place != "" {
				d.errorf(p.at, "two patches overlap, this one and that on line %d: %s", other.at.Line, place)
			}
		}
		for k, span := range p.Kernels {
			d.lift(to, p, span, p.ranges[k], kernelAt)
		}
		to.Patches = append(to.Patches, p.Patch)
	}
}

// lift lifts the limits that a patch mends. Several patches may be needed for one kernel.
func (d *decoder) lift(to *Driver, p *patchEntry, span driverinfo.Span, at, kernelAt *yaml.Node) {
	where := "the driver has no limits"
	if kernelAt != nil {
		where = fmt.Sprintf("its limits are on line %d", kernelAt.Line)
	}
	lifted, _, err := to.Kernel.Lift(span, p.Flavours, to.Flavours, p.Name)
	if err != nil {
		d.errorf(at, "patch %s for kernels %s: %v (%s)", p.Name, span, err, where)
		return
	}
	if _, needed, err := to.Unpatched.Lift(span, p.Flavours, to.Flavours, p.Name); !needed && err == nil {
		d.errorf(at, "patch %s is for kernels %s, and nothing says that the driver does not work on them: %s", p.Name, span, where)
		return
	}
	to.Kernel = lifted
}

// completePatch fills in what a patch does not say, and compares it with its driver and its text. ok is false
// after a mistake.
func (d *decoder) completePatch(to *Driver, p *patchEntry) (ok bool) {
	before := len(d.errs)
	if p.mends != "" {
		d.mend(to, p)
	}
	if len(p.Flavours) == 0 {
		p.Flavours = slices.Clone(to.Flavours)
	}
	for _, f := range p.Flavours {
		if !slices.Contains(to.Flavours, f) {
			d.errorf(p.at, "patch %s is for the %s modules, which driver %s does not have", p.Name, f, to.Version)
		}
	}
	var has []string
	if len(to.Archives) > 0 {
		has = append(has, SourceArchive)
	}
	if to.Debian != nil {
		has = append(has, SourcePackages)
	}
	for _, s := range p.Sources {
		if !slices.Contains(has, s) {
			d.errorf(p.at, "patch %s is for sources from %s, which driver %s does not have", p.Name, s, to.Version)
		}
	}
	if len(p.Sources) == 0 {
		p.Sources = has
	}
	if p.Text != "" {
		d.parsePatch(p)
	}
	return len(d.errs) == before
}

// mend takes kernels and flavours of a patch from the interface that it mends, as far as the driver's limit
// reaches.
func (d *decoder) mend(to *Driver, p *patchEntry) {
	at := slices.IndexFunc(d.changed, func(c Interface) bool { return c.Name == p.mends })
	if at < 0 {
		d.errorf(p.at, "patch %s mends %s, which is not in interfaces", p.Name, quoted(p.mends))
		return
	}
	p.Flavours = slices.Clone(d.changed[at].Flavours)
	for _, s := range d.changed[at].Kernels {
		if to.Kernel.Max == "" || driverinfo.CompareKernels(s.From, to.Kernel.Max) <= 0 {
			p.Kernels, p.ranges = append(p.Kernels, s), append(p.ranges, p.at)
		}
	}
}

func (d *decoder) parsePatch(p *patchEntry) {
	parsed, err := p.Parse([]byte(p.Text))
	if err != nil {
		d.errorf(p.at, "%v", err)
		return
	}
	p.parsed = parsed
}

// Parse parses the text of the patch. It changes files in the folders of all its flavours, and in no others.
func (p Patch) Parse(text []byte) (*patch.Patch, error) {
	var folders []string
	for _, f := range p.Flavours {
		folders = append(folders, PatchFolder(f))
	}
	parsed, err := patch.Parse(p.Name, text, folders...)
	if err != nil {
		return nil, err
	}
	for i, folder := range folders {
		if !slices.ContainsFunc(parsed.Files(), func(name string) bool { return strings.HasPrefix(name, folder+"/") }) {
			return nil, fmt.Errorf("%w: patch %s is for the %s modules and changes no file of %s/: say its flavours", patch.ErrFormat, p.Name, p.Flavours[i], folder)
		}
	}
	return parsed, nil
}

func intersect(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}
