package headers

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/driver-container/driver-container/distros/apt"
	"github.com/driver-container/driver-container/distros/dpkg"
)

// catalogue is what is asked of an *apt.Index.
type catalogue interface {
	Candidate(name string) (*apt.Package, bool)
	Versions(name string) []apt.Package
}

// closure follows the dependencies among header packages. apt's own resolution would not do: it installs all that is
// depended on, and see the package comment for what that is.
func (f *debFamily) closure(x catalogue, st *dpkg.Status, wants []string, arch string, e *UnavailableError) (*plan, error) {
	w := walk{x: x, st: st, arch: arch, chosen: map[string]*apt.Package{}}
	for _, name := range wants {
		p, ok := x.Candidate(name)
		if !ok {
			e.Package, e.Nearest = name, nearest(x, f.Distro, f.Release)
			return nil, e
		}
		w.choose(p)
	}
	for i := 0; i < len(w.order); i++ {
		if err := w.settle(w.order[i]); err != nil {
			e.Err = err
			return nil, e
		}
	}
	if len(w.missing) > 0 {
		slices.Sort(w.missing)
		f.Say("not fetched, because compiling modules does not need it or the image should have brought it: %s", strings.Join(slices.Compact(w.missing), ", "))
	}
	out := &plan{}
	for _, p := range slices.Backward(w.order) {
		size, err := installedSize(*p)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrPackage, err)
		}
		have, ok := w.installed(p.Name)
		out.packages = append(out.packages, item{p.Package, size, ok && have.Get("Version") != p.Version})
	}
	return out, nil
}

// walk is one closure in progress.
type walk struct {
	x       catalogue
	st      *dpkg.Status // nil: unknown
	arch    string
	chosen  map[string]*apt.Package
	order   []*apt.Package
	missing []string // what is depended on and neither fetched nor installed
}

func (w *walk) choose(p *apt.Package) {
	if w.chosen[p.Name] == nil {
		w.chosen[p.Name] = p
		w.order = append(w.order, p)
	}
}

// settle chooses what a package needs.
func (w *walk) settle(p *apt.Package) error {
	if len(w.order) > maxPackages {
		return fmt.Errorf("%s needs more than %d packages: the repository is broken", w.order[0].Name, maxPackages)
	}
	for _, field := range []string{"Pre-Depends", "Depends"} {
		groups, err := dpkg.ParseRelations(p.Paragraph.Get(field), w.arch)
		if err != nil {
			return fmt.Errorf("package %s: %s: %w", label(p.Package), field, err)
		}
		for _, group := range groups {
			if err := w.meet(p, group); err != nil {
				return err
			}
		}
	}
	return nil
}

// meet chooses one of the alternatives, or finds that the image has it, or that it is not needed.
func (w *walk) meet(p *apt.Package, group []dpkg.Relation) error {
	wanted := slices.ContainsFunc(group, func(r dpkg.Relation) bool { return ofHeaders(r.Name) })
	for _, r := range group {
		if c := w.chosen[r.Name]; c != nil && r.Matches(dpkg.Version(c.Version)) {
			return nil
		}
		if !ofHeaders(r.Name) {
			continue
		}
		if found := w.find(r); found != nil {
			w.choose(found)
			return nil
		}
	}
	if slices.ContainsFunc(group, w.present) {
		return nil
	}
	text := dpkg.Relations{group}.String()
	if wanted {
		return fmt.Errorf("package %s needs %s, which the repositories do not have (a mirror in the middle of an update? then try again in some minutes)", label(p.Package), text)
	}
	for _, r := range group {
		// All programs stand on the C library: without it fixdep and modpost, which every module needs, do not start.
		if have, ok := w.installed(r.Name); ok && r.Name == "libc6" {
			return fmt.Errorf("the tools in package %s need %s, and the image has %s: use an image of the system that the node's kernel was made for",
				label(p.Package), text, have.Get("Version"))
		}
	}
	if !strings.HasPrefix(group[0].Name, "linux-") {
		w.missing = append(w.missing, text)
	}
	return nil
}

// find is the version of a header package that meets a relation: the one that apt would choose, else the newest.
func (w *walk) find(r dpkg.Relation) *apt.Package {
	if p, ok := w.x.Candidate(r.Name); ok && r.Matches(dpkg.Version(p.Version)) {
		return p
	}
	for _, p := range w.x.Versions(r.Name) {
		if r.Matches(dpkg.Version(p.Version)) {
			return &p
		}
	}
	return nil
}

// present tells whether the image has what a relation asks for.
func (w *walk) present(r dpkg.Relation) bool {
	if w.st == nil {
		return false
	}
	if p, ok := w.installed(r.Name); ok && r.Matches(dpkg.Version(p.Get("Version"))) {
		return true
	}
	return slices.ContainsFunc(w.st.Provided(r.Name), func(p dpkg.Provision) bool {
		return r.Op == "" || p.Version != "" && r.Matches(p.Version)
	})
}

func (w *walk) installed(name string) (dpkg.Paragraph, bool) {
	if w.st == nil {
		return dpkg.Paragraph{}, false
	}
	return w.st.Find(name, w.arch)
}

// ofHeaders tells whether a package holds headers or the tools that belong to them, by its name: linux-headers-*,
// linux-hwe-6.8-headers-*, linux-kbuild-*. Their other dependencies are compilers (and linux-compiler-gcc-12-x86, which
// only names one), kernel images and libraries.
func ofHeaders(name string) bool {
	return strings.Contains(name, "linux-") && (strings.Contains(name, "headers-") || strings.Contains(name, "kbuild-"))
}

// installedSize is how many bytes a package says to have unpacked; 0 when it does not.
func installedSize(p apt.Package) (uint64, error) {
	text := p.Paragraph.Get("Installed-Size")
	if text == "" {
		return 0, nil
	}
	kib, err := strconv.ParseUint(text, 10, 40)
	if err != nil {
		return 0, errors.New("package " + label(p.Package) + ": bad Installed-Size " + strconv.Quote(text))
	}
	return kib << 10, nil
}
