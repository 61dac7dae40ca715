package lockfile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/recipe"
)

// Change is one thing that differs. Old or New is "" for what is on one side only.
type Change struct{ What, Old, New string }

// String is one line: "package gcc: 12.2.0-3 -> 12.3.0-1".
func (c Change) String() string {
	switch {
	case c.Old == "":
		return c.What + ": new: " + c.New
	case c.New == "":
		return c.What + ": gone: " + c.Old
	}
	return c.What + ": " + c.Old + " -> " + c.New
}

// changes collects differences in the order in which they are looked for.
type changes []Change

func (c *changes) text(what, old, now string) {
	if old != now {
		*c = append(*c, Change{what, old, now})
	}
}

// words compares lists whose order has no meaning, word by word.
func (c *changes) words(what string, old, now []string) {
	for _, w := range old {
		if !slices.Contains(now, w) {
			*c = append(*c, Change{what, w, ""})
		}
	}
	for _, w := range now {
		if !slices.Contains(old, w) {
			*c = append(*c, Change{what, "", w})
		}
	}
}

// CompareAsked lists the differences between what was locked and what is asked for now, a recipe
// without pins. The mirror is left out: it changes where packages come from and not which.
func CompareAsked(locked, now *recipe.Recipe) []Change {
	var c changes
	was := locked.Asked
	is := now.Asked
	c.text("base image", imageNames(was.Base)[0], imageNames(is.Base)[0])
	c.words("component", was.Components, is.Components)
	c.words("repository", repositories(locked), repositories(now))
	used := map[bool]string{false: "used", true: "left out"}
	c.text("repositories of the base", used[locked.OnlyThese], used[now.OnlyThese])
	c.words("wanted in the image", was.Image, is.Image)
	c.words("wanted to compile", was.Compiler, is.Compiler)
	c.words("image with kernels", imageNames(was.KernelFrom...), imageNames(is.KernelFrom...))
	c.words("kernel", locked.Releases(), now.Releases())
	for _, release := range slices.Sorted(maps.Keys(was.Headers)) {
		if headers, ok := is.Headers[release]; ok {
			c.words("headers of "+release, was.Headers[release], headers)
		}
	}
	for _, release := range releasesOf(was.Signed, is.Signed) {
		c.words("signed modules of "+release, was.Signed[release], is.Signed[release])
	}
	c.words("driver package", was.Driver, is.Driver)
	c.words("companion package", was.Companions, is.Companions)
	c.text("driver archive", archive(locked), archive(now))
	return c
}

// releasesOf are the kernels of two requests.
func releasesOf[T any](some, others map[string]T) []string {
	all := maps.Clone(some)
	if all == nil {
		all = map[string]T{}
	}
	maps.Copy(all, others)
	return slices.Sorted(maps.Keys(all))
}

// imageNames are references of images in words.
func imageNames(refs ...string) (names []string) {
	for _, ref := range refs {
		names = append(names, cmp.Or(ref, "an image of the machine that locked"))
	}
	return names
}

func repositories(r *recipe.Recipe) (all []string) {
	for _, one := range r.Public().Repositories {
		all = append(
			all,
			strings.Join(slices.Concat(one.BaseURLs, one.URIs, one.Suites, one.Components), " "),
		)
	}
	return all
}

// archive names the driver's archive by its digest: it may come from anywhere.
func archive(r *recipe.Recipe) string {
	if file := r.Source.Archive(); file != nil {
		return file.Digest()
	}
	return ""
}

// ComparePins lists what a plan finds now instead of what was locked.
func ComparePins(old, now recipe.Pins) []Change {
	var c changes
	c.text("base "+now.Base.Name, old.Base.Digest, now.Base.Digest)
	c.packages("package", old.Packages, now.Packages)
	c.packages("compiler", old.Compiler, now.Compiler)
	for _, release := range slices.Sorted(maps.Keys(old.Headers)) {
		c.packages("headers of "+release, old.Headers[release], now.Headers[release])
	}
	for _, release := range slices.Sorted(maps.Keys(old.Signed)) {
		for _, flavour := range slices.Sorted(maps.Keys(old.Signed[release])) {
			what := flavour + " modules of " + release
			c.packages(what, old.Signed[release][flavour], now.Signed[release][flavour])
		}
	}
	for _, release := range slices.Sorted(maps.Keys(old.Toolkits)) {
		c.text(
			"image with kernel "+release+" "+now.Toolkits[release].Name,
			old.Toolkits[release].Digest,
			now.Toolkits[release].Digest,
		)
	}
	c.packages("driver", old.Driver, now.Driver)
	c.packages("companion", old.Companions, now.Companions)
	return c
}

// packages compares by name and architecture: a base may have two architectures of one package.
func (c *changes) packages(what string, old, now []distros.Package) {
	index := func(list []distros.Package) map[string]distros.Package {
		m := map[string]distros.Package{}
		for _, p := range list {
			m[p.Name+" "+p.Arch] = p
		}
		return m
	}
	before := index(old)
	after := index(now)
	both := maps.Clone(before)
	maps.Copy(both, after)
	for _, k := range slices.Sorted(maps.Keys(both)) {
		b := before[k]
		a := after[k]
		label := what + " " + both[k].Name
		if a.Version != b.Version {
			c.text(label, b.Version, a.Version)
			continue
		}
		label += " " + a.Version
		if a.Digest() != b.Digest() {
			c.text(label, recipe.PackageFile(b).Digest(), recipe.PackageFile(a).Digest())
		} else {
			c.text(label, b.URL, a.URL)
		}
	}
}

// Compare lists everything that differs between two states of one image.
func Compare(old, now *Entry) []Change {
	c := changes(CompareAsked(old.Recipe, now.Recipe))
	c.text("mirror", old.Recipe.Asked.Mirror, now.Recipe.Asked.Mirror)
	c.words("--kernel", old.Kernels, now.Kernels)
	return append(c, ComparePins(old.Recipe.Pins(), now.Recipe.Pins())...)
}

// Changes lists what a new state of a lock has otherwise, a line each.
func (l *Lock) Changes(now *Lock) (lines []string) {
	names := slices.Concat(l.Names(), now.Names())
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		before, had := l.Images[name]
		after, has := now.Images[name]
		switch {
		case !has:
			lines = append(lines, name+": dropped")
		case !had:
			lines = append(lines, fmt.Sprintf(
				"%s: new, base %s, %d packages",
				name,
				strings.TrimPrefix(after.Recipe.Base.Digest, "sha256:")[:12],
				len(after.Recipe.AllPackages()),
			))
		default:
			for _, c := range Compare(before, after) {
				lines = append(lines, name+": "+c.String())
			}
		}
	}
	return lines
}

// MismatchError means that the image that was requested is not the one that was locked. Nothing was
// built.
type MismatchError struct {
	Target  string // its name
	Changes []Change
	Command string // what updates the lock; may be empty
	Err     error  // what went wrong first; nil when the request alone differs
}

// Error has a line for each change.
func (e *MismatchError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is not what was locked", e.Target)
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v; since then", e.Err)
	}
	b.WriteString(" (locked -> now):")
	for _, c := range e.Changes {
		b.WriteString("\n  " + c.String())
	}
	if e.Command != "" {
		b.WriteString("\nif that is right: " + e.Command)
	}
	return b.String()
}

func (e *MismatchError) Unwrap() error { return e.Err }
