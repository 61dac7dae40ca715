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

// catalogue is the part of *apt.Index that is used here.
type catalogue interface {
	Candidate(name string) (*apt.Package, bool)
	Versions(name string) []apt.Package
}

// closure follows the dependencies among header packages. It does not use apt's own resolution, which would
// install all dependencies; the package comment says what these are.
func (f *debManager) closure(x catalogue, st *dpkg.Status, wants []string, arch string, e *UnavailableError) (*plan, error) {
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
		if err := w.addDependencies(w.order[i]); err != nil {
			e.Err = err
			return nil, e
		}
	}
	if len(w.missing) > 0 {
		slices.Sort(w.missing)
		f.Log.Info("not fetched, because compiling modules does not need it or the image should have brought it", "packages", slices.Compact(w.missing))
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
	missing []string // dependencies that are neither fetched nor installed
}

func (w *walk) choose(p *apt.Package) {
	if w.chosen[p.Name] == nil {
		w.chosen[p.Name] = p
		w.order = append(w.order, p)
	}
}

// addDependencies chooses the packages that a package needs.
func (w *walk) addDependencies(p *apt.Package) error {
	if len(w.order) > maxPackages {
		return fmt.Errorf("%s needs more than %d packages: the repository is broken", w.order[0].Name, maxPackages)
	}
	for _, field := range []string{"Pre-Depends", "Depends"} {
		groups, err := dpkg.ParseRelations(p.Paragraph.Get(field), w.arch)
		if err != nil {
			return fmt.Errorf("package %s: %s: %w", label(p.Package), field, err)
		}
		for _, group := range groups {
			if err := w.satisfy(p, group); err != nil {
				return err
			}
		}
	}
	return nil
}

// satisfy chooses one of the alternatives, unless the image has one or none is needed.
func (w *walk) satisfy(p *apt.Package, group []dpkg.Relation) error {
	wanted := slices.ContainsFunc(group, func(r dpkg.Relation) bool { return isHeaders(r.Name) })
	for _, r := range group {
		if c := w.chosen[r.Name]; c != nil && r.Matches(dpkg.Version(c.Version)) {
			return nil
		}
		if !isHeaders(r.Name) {
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
		// Every program needs the C library: without the right one fixdep and modpost, which every module needs, do
		// not start.
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

// find returns the version of a header package that satisfies a relation: the one that apt would choose, else
// the newest.
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

// present says whether the image satisfies a relation.
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

// isHeaders says whether a package has headers or their tools, by its name: linux-headers-*,
// linux-hwe-6.8-headers-*, linux-kbuild-*. Their other dependencies are compilers (and
// linux-compiler-gcc-12-x86, which only names one), kernel images and libraries.
func isHeaders(name string) bool {
	return strings.Contains(name, "linux-") && (strings.Contains(name, "headers-") || strings.Contains(name, "kbuild-"))
}

// installedSize returns the size of the unpacked package, 0 when the package does not give it.
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
