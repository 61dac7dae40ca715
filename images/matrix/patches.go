package matrix

import (
	"crypto/sha256"
	"fmt"
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

// Patch is a change to the sources of a driver's kernel modules, which makes them work on some
// kernels. The changed sources still compile on all others. A recipe has it in JSON.
type Patch struct {
	Name   string `json:"name"` // of the file, without its ending: "open-pci-resize-resource"
	SHA256 string `json:"sha256" m:"sha256!" of:"sha256"`
	File   string `json:"file,omitempty" m:"file" of:"patch"`   // beside the matrix; "" with a URL
	URL    string `json:"url,omitempty" m:"url" of:"patch-url"` // "" with a file

	Flavours []string          `json:"flavours" m:"flavours" of:"flavour"` // that it changes
	Kernels  []driverinfo.Span `json:"kernels" m:"kernels" of:"kernel"`    // for which it is needed
	Licence  string            `json:"licence" m:"licence!" of:"licence"`  // an SPDX expression
	Reason   string            `json:"reason" m:"reason!"`                 // what it changes
	// where the change comes from
	Origin string `json:"origin" m:"origin!"`
	// of the file; "" with a URL, if nothing reads files, and in a lock
	Text string `json:"text,omitempty"`
	// the interface whose change it mends, in place of kernels and flavours
	Mends   string   `json:"-" m:"mends"`
	Sources []string `json:"-" m:"sources" of:"sources"` // that need it
}

var patchName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{0,63}$`)

// PatchFolder returns the folder of the sources of a flavour, as NVIDIA's archives and repository
// have it.
func PatchFolder(flavour string) string {
	if flavour == Open {
		return "kernel-open"
	}
	return "kernel"
}

// patches completes the patches of a driver and lifts the limits of its kernels that they mend.
func (d *decoder) patches(to *Driver, n *yaml.Node) {
	to.Unpatched = to.Kernel
	if len(to.Patches) > maxPatches {
		d.errorf(child(n, "patches"), "driver %s has more than %d patches", to.Version, maxPatches)
		return
	}
	texts := make([]*patch.Patch, len(to.Patches))
	for i := range to.Patches {
		p := &to.Patches[i]
		at := child(n, "patches").Content[i]
		before := len(d.errs)
		ranges := d.completePatch(to, p, at)
		if p.Text != "" && len(d.errs) == before {
			var err error
			texts[i], err = p.Parse([]byte(p.Text))
			if err != nil {
				d.errorf(at, "%v", err)
			}
		}
		if len(d.errs) > before {
			continue
		}
		for k, other := range to.Patches[:i] {
			line := child(n, "patches").Content[k].Line
			if other.Name == p.Name {
				d.errorf(at, "patch %s appears twice: first on line %d", quoted(p.Name), line)
			}
			if texts[k] == nil || texts[i] == nil ||
				len(inOrder(other.Flavours, p.Flavours)) == 0 ||
				len(inOrder(other.Sources, p.Sources)) == 0 {
				continue
			}
			if place := texts[k].Overlap(texts[i]); place != "" {
				d.errorf(at, "two patches overlap, this one and that on line %d: %s", line, place)
			}
		}
		for k, span := range p.Kernels {
			d.lift(to, p, span, ranges[k], child(n, "kernel"))
		}
	}
}

// completePatch fills in what a patch does not say, and compares it with its driver. It returns
// where the kernels are in the file.
func (d *decoder) completePatch(to *Driver, p *Patch, at *yaml.Node) (ranges []*yaml.Node) {
	switch {
	case (p.File == "") == (p.URL == ""):
		d.errorf(at, "a patch needs either file, beside the matrix, or url")
		return nil
	case (p.Mends != "") == (len(p.Kernels)+len(p.Flavours) > 0) || p.Mends == "" && len(p.Kernels) == 0:
		d.errorf(
			at,
			"a patch needs either kernels, or mends with the interface, which says kernels and flavours",
		)
		return nil
	}
	base := path.Base(p.File + p.URL)
	p.Name = strings.TrimSuffix(base, path.Ext(base))
	if !patchName.MatchString(p.Name) {
		d.errorf(at, "the name of patch %s must consist of small letters, digits, dots and hyphens", quoted(base))
	}
	if p.File != "" && p.SHA256 != "" && d.files.Patch != nil {
		d.readPatch(p, at)
	}
	ranges = child(at, "kernels").Content
	if p.Mends != "" {
		d.mend(to, p, at)
		ranges = slices.Repeat([]*yaml.Node{at}, len(p.Kernels))
	}
	var sources []string
	if len(to.Archives) > 0 {
		sources = append(sources, SourceArchive)
	}
	if to.Debian != nil {
		sources = append(sources, SourcePackages)
	}
	// an empty list is all that the driver has
	among := func(list, has []string, format string) []string {
		for _, word := range list {
			if !slices.Contains(has, word) {
				d.errorf(at, format, p.Name, word, to.Version)
			}
		}
		if len(list) == 0 {
			return slices.Clone(has)
		}
		return list
	}
	p.Flavours = among(p.Flavours, to.Flavours, "patch %s is for the %s modules, which driver %s does not have")
	p.Sources = among(p.Sources, sources, "patch %s is for sources from %s, which driver %s does not have")
	return ranges
}

// readPatch reads the file of a patch, and compares it with its checksum.
func (d *decoder) readPatch(p *Patch, at *yaml.Node) {
	text, err := d.files.Patch(p.File)
	if err != nil {
		d.errorf(at, "patch %s cannot be read: %v", quoted(p.File), err)
		return
	}
	got := fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
	if got != p.SHA256 {
		d.errorf(child(at, "sha256"), "patch %s has sha256 %s: correct one of them", quoted(p.File), got)
		return
	}
	p.Text = text
}

// lift lifts the limits that a patch mends. Several patches may be needed for one kernel.
func (d *decoder) lift(to *Driver, p *Patch, span driverinfo.Span, at, limits *yaml.Node) {
	where := fmt.Sprintf("its limits are on line %d", limits.Line)
	if to.Unpatched.IsZero() {
		where = "the driver has no limits"
	}
	lifted, _, err := to.Kernel.Lift(span, p.Flavours, to.Flavours, p.Name)
	if err != nil {
		d.errorf(at, "patch %s for kernels %s: %v (%s)", p.Name, span, err, where)
		return
	}
	_, needed, err := to.Unpatched.Lift(span, p.Flavours, to.Flavours, p.Name)
	if err != nil || needed {
		to.Kernel = lifted
		return
	}
	d.errorf(at, "patch %s is for kernels %s, and nothing says that the driver does not work on them: %s",
		p.Name, span, where)
}

// mend takes kernels and flavours of a patch from the interface that it mends, as far as the
// driver's limit reaches.
func (d *decoder) mend(to *Driver, p *Patch, n *yaml.Node) {
	at := slices.IndexFunc(d.m.Interfaces, func(c Interface) bool { return c.Name == p.Mends })
	if at < 0 {
		d.errorf(n, "patch %s mends %s, which is not in interfaces", p.Name, quoted(p.Mends))
		return
	}
	p.Flavours = slices.Clone(d.m.Interfaces[at].Flavours)
	p.Kernels = slices.DeleteFunc(
		slices.Clone(d.m.Interfaces[at].Kernels),
		func(s driverinfo.Span) bool {
			return to.Kernel.Max != "" && driverinfo.CompareKernels(s.From, to.Kernel.Max) > 0
		},
	)
}

// Parse parses the text of the patch. It changes files in the folders of all its flavours, and in
// no others.
func (p Patch) Parse(text []byte) (*patch.Patch, error) {
	folders := names(p.Flavours, PatchFolder)
	parsed, err := patch.Parse(p.Name, text, folders...)
	if err != nil {
		return nil, err
	}
	for i, folder := range folders {
		if !slices.ContainsFunc(
			parsed.Files(),
			func(name string) bool { return strings.HasPrefix(name, folder+"/") },
		) {
			return nil, fmt.Errorf(
				"%w: patch %s is for the %s modules and changes no file of %s/: say its flavours",
				patch.ErrFormat,
				p.Name,
				p.Flavours[i],
				folder,
			)
		}
	}
	return parsed, nil
}
