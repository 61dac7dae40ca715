package status

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
)

// KernelQuery asks which kernels the package repositories of systems, or images with headers and
// compiler, offer.
type KernelQuery struct {
	Matrix    *matrix.Matrix
	Selection matrix.Selection
	// images to ask instead of the repositories; then no system need be selected
	From       []string
	Flavours   []string       // of kernels; empty: all
	Options    recipe.Options // its Base and Mirror count
	Repository string         // where images are looked for; "": nowhere
	Dates      bool           // ask the mirror for the date of each kernel

	Notes []string // what the user should know beside the answer

	platforms  []matrix.Target // to ask, without driver
	compatible []matrix.Target // that the matrix allows
}

// OfferedKernel is one kernel of one system.
type OfferedKernel struct {
	System  string `json:"os"`
	Arch    string `json:"arch"`
	Kernel  string `json:"kernel"`
	Flavour string `json:"flavour"`
	Default bool   `json:"default"`
	Package string `json:"package"`
	Version string `json:"version"`
	Date    string `json:"date,omitempty"` // RFC 3339, with --dates where the mirror says it
	// with --from, the image; package is the folder with the headers
	From    string   `json:"from,omitempty"`
	Built   string   `json:"builtWith,omitempty"` // with --from, the compiler that built the kernel
	Drivers []string `json:"drivers"`             // of the matrix, that compile on it
	// drivers whose modules for it the distribution has signed, for --modules-from
	Signed []distros.SignedDriver `json:"signed,omitempty"`
	// tags in the repository of images that drive it; null: not known
	Images []string `json:"images"`
	// those of them that have its modules; the others compile on the node
	Ready []string `json:"precompiled"`
}

// Check asks the matrix which systems, architectures and drivers are meant.
func (q *KernelQuery) Check() error {
	s := &q.Selection
	if err := recipe.CheckKernelFlavours(q.Flavours); err != nil {
		return failure.Of(failure.Usage, err)
	}
	switch {
	case len(q.From) > 0 && (q.Dates || q.Options.Base != "" || q.Options.Mirror != ""):
		return failure.Errorf(failure.Usage, "--from asks no package repository: leave --base, --mirror and --dates out")
	case len(q.From) == 0 && len(s.Systems) == 0:
		return failure.Errorf(failure.Usage, "give --os SYSTEM; driver-build list shows the systems there are")
	case len(s.Systems) > 1 && q.Options.Base != "":
		return failure.Errorf(failure.Usage, "--base is of one system: give one --os")
	}
	s.All = true
	var err error
	q.compatible, err = q.Matrix.Select(*s)
	if err != nil {
		return failure.Of(failure.Usage, err)
	}
	if len(s.Systems) == 0 { // images are of no system of the matrix
		for _, arch := range s.ArchsOf(matrix.System{}) {
			q.platforms = append(q.platforms, matrix.Target{Arch: arch})
		}
		return nil
	}
	for _, sys := range q.Matrix.Systems {
		if !slices.Contains(s.Systems, sys.ID) {
			continue
		}
		for _, arch := range s.ArchsOf(sys) {
			if !slices.Contains(sys.Archs, arch) {
				return failure.Errorf(failure.Usage, "--arch %s: the matrix has %s for %s only", arch, sys.ID, strings.Join(sys.Archs, ", "))
			}
			distro, err := distros.Lookup(sys.ID)
			if err != nil {
				return err
			}
			q.platforms = append(q.platforms, matrix.Target{System: sys, Distro: distro, Arch: arch})
		}
	}
	if len(s.Drivers) > 0 {
		for _, no := range q.Matrix.Impossible(*s) {
			q.Notes = append(q.Notes, no.Error())
		}
	}
	return nil
}

// List asks the repositories of all platforms and the registry. A platform that fails does not stop
// the others: the error is images.ErrSomeFailed then, and the kernels of the others are there.
func (q *KernelQuery) List(ctx context.Context, b *images.Builder) (rows []OfferedKernel, err error) {
	tags, err := q.listTags(ctx, b)
	if err != nil {
		return nil, err
	}
	found := make([][]OfferedKernel, len(q.platforms))
	errs := images.Parallel(ctx, b.Jobs/2, len(q.platforms), func(i int) (err error) {
		found[i], err = q.kernels(ctx, b, q.platforms[i], tags)
		return err
	})
	failed := 0
	offered := map[string]bool{}
	for i, t := range q.platforms {
		switch {
		case errs[i] != nil:
			failed++
		case len(found[i]) == 0 && !packaged(t):
			q.Notes = append(q.Notes, fmt.Sprintf("kernel headers of %s come with the host and are in no package: "+
				"--from IMAGE lists the kernels of an image that has them", t.Platform()))
		case len(found[i]) == 0:
			q.Notes = append(q.Notes, fmt.Sprintf("the package repositories of %s offer no kernel headers", t.Platform()))
		}
		for _, k := range found[i] {
			offered[k.Flavour] = true
			if wanted(q.Flavours, k.Flavour) {
				rows = append(rows, k)
			}
		}
	}
	if failed == 0 {
		return rows, q.checkFlavours(offered)
	}
	err = images.JoinErrors(errs, func(i int) string { return q.platforms[i].Platform() })
	if failed < len(errs) {
		err = fmt.Errorf("%d of %d systems: %w:\n%w", failed, len(errs), images.ErrSomeFailed, err)
	}
	return rows, err
}

// wanted says whether a list names something; an empty list names everything.
func wanted(list []string, s string) bool { return len(list) == 0 || slices.Contains(list, s) }

// packaged says whether packages of the system can have kernel headers.
func packaged(t matrix.Target) bool {
	return t.Distro == nil || recipe.CheckPackaged(t.Distro) == nil
}

// kernels asks the repositories of one platform, unless no package of the system can have headers,
// or the images. tags are those in the registry.
func (q *KernelQuery) kernels(
	ctx context.Context, b *images.Builder, t matrix.Target, tags map[string]bool,
) (rows []OfferedKernel, err error) {
	add := func(k distros.Kernel) *OfferedKernel {
		rows = append(rows, q.row(t, k, tags))
		return &rows[len(rows)-1]
	}
	switch {
	case len(q.From) > 0:
		all, err := b.HeadersKernels(ctx, q.From, t.Arch)
		for _, k := range all {
			r := add(k.Kernel.Kernel)
			r.From = k.Ref
			r.Built = k.Compiler
		}
		return rows, err
	case !packaged(t):
		return nil, nil
	case q.Dates:
		all, err := b.DatedKernels(ctx, t, q.Options)
		for _, k := range all {
			if r := add(k.Kernel); !k.Date.IsZero() {
				r.Date = k.Date.Format(time.RFC3339)
			}
		}
		return rows, err
	}
	all, err := b.Kernels(ctx, t, q.Options)
	for _, k := range all {
		add(k)
	}
	return rows, err
}

// checkFlavours refuses a flavour that no system has: most likely it is misspelt.
func (q *KernelQuery) checkFlavours(offered map[string]bool) error {
	for _, flavour := range q.Flavours {
		if offered[flavour] {
			continue
		}
		known := slices.Sorted(maps.Keys(offered))
		hint := "there are " + strings.Join(known, ", ")
		if near := distros.Nearest(flavour, known); len(near) > 0 {
			hint = "did you mean " + strings.Join(near, ", ") + "?"
		}
		who := "the repositories have"
		if len(q.From) > 0 {
			who = strings.Join(q.From, " and ") + " has"
		}
		return failure.Errorf(failure.Usage, "--kernel-flavour %q: %s no kernel of it: %s", flavour, who, hint)
	}
	return nil
}

// listTags asks the registry for all tags of a repository. An error of the registry stays as it is.
func listTags(ctx context.Context, b *images.Builder, repository string) ([]string, error) {
	step := b.Observe.Begin(repository, "list the tags")
	tags, err := b.Registry.ListTags(ctx, repository)
	_ = step.End(false, nil) // the caller says what went wrong
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if _, ok := errors.AsType[*registry.Error](err); !ok && err != nil && failure.KindOf(err) != failure.Network {
		err = failure.Errorf(failure.Usage, "--repository: %w", err)
	}
	return tags, err
}

// listTags asks once for what the repository has; nil: it is not known. A registry that does not
// say is no failure: it is the smaller part of the answer.
func (q *KernelQuery) listTags(ctx context.Context, b *images.Builder) (tags map[string]bool, err error) {
	if q.Repository == "" {
		return nil, nil //nolint:nilnil // no tag is known
	}
	list, err := listTags(ctx, b, q.Repository)
	if _, ok := errors.AsType[*registry.Error](err); ok || errors.Is(err, fetch.ErrOffline) {
		q.Notes = append(q.Notes, fmt.Sprintf("which images exist is not known: %v", err))
		return nil, nil //nolint:nilnil // no tag is known
	}
	tags = map[string]bool{}
	for _, tag := range list {
		tags[tag] = true
	}
	return tags, err
}

// row says what can be done with a kernel.
func (q *KernelQuery) row(t matrix.Target, k distros.Kernel, known map[string]bool) OfferedKernel {
	r := OfferedKernel{
		System: t.System.ID, Arch: t.Arch, Kernel: k.Release, Flavour: k.Flavour, Default: k.Default, Package: k.Headers,
		Version: k.Version, Drivers: []string{}, Signed: k.Signed,
	}
	var ready, tags []string
	for _, d := range q.Matrix.Drivers {
		if !wanted(q.Selection.Drivers, d.Version) {
			continue
		}
		t.Driver = d
		tag, aliases := recipe.KernelTags(t, k.Release)
		for _, tag := range append(aliases, tag) {
			ready = append(ready, tag, tag+recipe.ModulesSuffix)
		}
		flavours := d.Flavours
		if len(q.Selection.Flavours) > 0 {
			flavours = q.Selection.Flavours
		}
		allowed := slices.ContainsFunc(q.compatible, func(c matrix.Target) bool {
			return c.Driver.Version == d.Version && c.Arch == t.Arch && (t.Distro == nil || c.System.ID == t.System.ID)
		})
		if allowed && recipe.AnyFlavour(d, k, flavours) {
			r.Drivers = append(r.Drivers, d.Version)
			tags = append(tags, t.Tag())
		}
	}
	if known != nil {
		r.Ready = present(known, ready)
		r.Images = present(known, append(tags, ready...))
	}
	return r
}

// present are those of the tags that are known, sorted.
func present(known map[string]bool, tags []string) []string {
	tags = slices.DeleteFunc(slices.Clone(tags), func(tag string) bool { return !known[tag] })
	slices.Sort(tags)
	return append([]string{}, slices.Compact(tags)...)
}
