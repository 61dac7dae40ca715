package lockfile

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/matrix"
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

// CompareRequests lists the differences between two requests: of the lock, and of this build.
// The mirror is left out: it changes where packages come from and not which.
func CompareRequests(old, now recipe.Request) []Change {
	var c changes
	c.text("base image", imageName(old.Base), imageName(now.Base))
	c.words("component", old.Components, now.Components)
	c.words("repository", repositories(old), repositories(now))
	c.text("repositories of the base", used(!old.OnlyThese), used(!now.OnlyThese))
	c.words("wanted in the image", old.Image, now.Image)
	c.words("wanted to compile", old.Compiler, now.Compiler)
	c.words("image with kernels", imageNames(old.KernelFrom), imageNames(now.KernelFrom))
	c.words("kernel", slices.Sorted(maps.Keys(old.Headers)), slices.Sorted(maps.Keys(now.Headers)))
	for _, release := range slices.Sorted(maps.Keys(old.Headers)) {
		if headers, ok := now.Headers[release]; ok {
			c.words("headers of "+release, old.Headers[release], headers)
		}
	}
	c.words("driver package", old.Driver, now.Driver)
	c.words("companion package", old.Companions, now.Companions)
	c.text("driver archive", archiveText(old), archiveText(now))
	return c
}

// imageName is the reference of an image in words.
func imageName(ref string) string {
	if ref == "" {
		return "an image of the machine that locked"
	}
	return ref
}

func imageNames(refs []string) (names []string) {
	for _, ref := range refs {
		names = append(names, imageName(ref))
	}
	return names
}

func used(yes bool) string {
	if yes {
		return "used"
	}
	return "left out"
}

func repositories(q recipe.Request) []string {
	var all []string
	for _, r := range q.Repositories {
		all = append(all, repositoryText(r))
	}
	return all
}

func repositoryText(r matrix.Repository) string {
	if len(r.BaseURLs) > 0 {
		return strings.Join(r.BaseURLs, " ")
	}
	return strings.Join(r.URIs, " ") + " " + strings.Join(r.Suites, " ") + " " + strings.Join(r.Components, " ")
}

func archiveText(q recipe.Request) string {
	if q.Archive == nil {
		return ""
	}
	text := q.Archive.URL + " sha256:" + q.Archive.SHA256
	if q.Archive.Size > 0 {
		text += ", " + strconv.FormatInt(q.Archive.Size, 10) + " bytes"
	}
	return text
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
	for _, release := range slices.Sorted(maps.Keys(old.Toolkits)) {
		c.text("image with kernel "+release+" "+now.Toolkits[release].Name, old.Toolkits[release].Digest, now.Toolkits[release].Digest)
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
	before, after := index(old), index(now)
	both := map[string]bool{}
	for k := range before {
		both[k] = true
	}
	for k := range after {
		both[k] = true
	}
	for _, k := range slices.Sorted(maps.Keys(both)) {
		b, inOld := before[k]
		a, inNew := after[k]
		label := what + " " + k[:strings.LastIndexByte(k, ' ')]
		switch {
		case !inNew:
			c.text(label, b.Version, "")
		case !inOld:
			c.text(label, "", a.Version)
		case a.Version != b.Version:
			c.text(label, b.Version, a.Version)
		case a.Digest() != b.Digest():
			c.text(label+" "+a.Version, digest(b), digest(a))
		default:
			c.text(label+" "+a.Version, b.URL, a.URL)
		}
	}
}

// Compare lists everything that differs between two states of one target.
func Compare(old, now *Target) []Change {
	all := CompareRequests(old.Asked, now.Asked)
	var c changes
	c.text("mirror", old.Asked.Mirror, now.Asked.Mirror)
	c.words("--kernel", old.Kernels, now.Kernels)
	return append(append(all, c...), ComparePins(old.Pins, now.Pins)...)
}

// MismatchError means that the image that was requested is not the one that was locked. Nothing was built.
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
