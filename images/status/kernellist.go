package status

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
)

// KernelQuery asks which kernels the package repositories of systems, or images with headers and
// compiler, offer.
type KernelQuery struct {
	Matrix     *matrix.Matrix
	Selection  matrix.Selection
	From       []string       // images to ask instead of the repositories; then no system need be selected
	Flavours   []string       // of kernels; empty: all
	Plan       recipe.Options // its Base and Mirror count
	Repository string         // where images are looked for; "": nowhere
	Dates      bool           // ask the mirror for the date of each kernel

	Notes []string // what the user should know beside the answer

	targets    []matrix.Target // one for each platform, without driver
	compatible map[string]bool // platform and driver that the matrix allows
	tags       map[string]bool // in the repository; nil: not known
	offered    map[string]bool // flavours of all kernels that are offered
}

// OfferedKernel is one kernel of one system.
type OfferedKernel struct {
	System  string   `json:"os"`
	Arch    string   `json:"arch"`
	Kernel  string   `json:"kernel"`
	Flavour string   `json:"flavour"`
	Default bool     `json:"default"`
	Package string   `json:"package"`
	Version string   `json:"version"`
	Date    string   `json:"date,omitempty"`      // RFC 3339, with --dates where the mirror says it
	From    string   `json:"from,omitempty"`      // with --from, the image; package is the folder with the headers
	Built   string   `json:"builtWith,omitempty"` // with --from, the compiler that built the kernel
	Drivers []string `json:"drivers"`             // of the matrix, that compile on it
	Images  []string `json:"images"`              // tags in the repository of images that drive it; null: not known
	Ready   []string `json:"precompiled"`         // those of them that have its modules; the others compile on the node
}

// modules are the flavours of a driver's modules that count.
func (q *KernelQuery) modules(d matrix.Driver) []string {
	if len(q.Selection.Flavours) > 0 {
		return q.Selection.Flavours
	}
	return d.Flavours
}

// Check asks the matrix which systems, architectures and drivers are meant.
func (q *KernelQuery) Check() error {
	s := &q.Selection
	if err := batch.CheckKernelFlavours(q.Flavours); err != nil {
		return failure.Of(failure.Usage, err)
	}
	if len(q.From) > 0 {
		if err := q.checkImages(); err != nil {
			return err
		}
	} else if len(s.Systems) == 0 {
		return failure.Errorf(failure.Usage, "give --os SYSTEM; driver-build list shows the systems there are")
	}
	if len(s.Systems) > 1 && q.Plan.Base != "" {
		return failure.Errorf(failure.Usage, "--base is of one system: give one --os")
	}
	s.All = true
	targets, err := q.Matrix.Select(*s)
	if err != nil {
		return failure.Of(failure.Usage, err)
	}
	q.compatible, q.offered = map[string]bool{}, map[string]bool{}
	for _, t := range targets {
		q.compatible[batch.Platform(t)+" "+t.Driver.Version] = true
		q.compatible[batch.Platform(matrix.Target{Arch: t.Arch})+" "+t.Driver.Version] = true
	}
	if len(s.Systems) == 0 {
		for _, arch := range s.ArchsOf(matrix.System{}) {
			q.targets = append(q.targets, matrix.Target{Arch: arch})
		}
	}
	for _, sys := range q.Matrix.Systems {
		for _, arch := range s.ArchsOf(sys) {
			if !slices.Contains(s.Systems, sys.ID) {
				continue
			}
			if !slices.Contains(sys.Archs, arch) {
				return failure.Errorf(failure.Usage, "--arch %s: the matrix has %s for %s only", arch, sys.ID, strings.Join(sys.Archs, ", "))
			}
			distro, err := distros.Lookup(sys.ID)
			if err != nil {
				return err
			}
			q.targets = append(q.targets, matrix.Target{System: sys, Distro: distro, Arch: arch})
		}
	}
	if len(s.Drivers) > 0 && len(s.Systems) > 0 { // images are of no system of the matrix
		for _, no := range q.Matrix.Impossible(*s) {
			q.Notes = append(q.Notes, no.Error())
		}
	}
	return nil
}

// List asks the repositories of all platforms and the registry. A platform that fails does not stop the others: the error is
// batch.ErrSomeFailed then, and the kernels of the others are there.
func (q *KernelQuery) List(ctx context.Context, b *images.Builder) (rows []OfferedKernel, err error) {
	var eg errgroup.Group
	eg.Go(func() error { return q.listTags(ctx, b) })
	found := make([][]offer, len(q.targets))
	errs := batch.Parallel(ctx, b.Jobs/2, len(q.targets), func(i int) (err error) {
		found[i], err = q.kernels(ctx, b, q.targets[i])
		return err
	})
	if err := eg.Wait(); err != nil {
		return nil, err
	}
	failed := 0
	for i, t := range q.targets {
		switch {
		case errs[i] != nil:
			failed++
		case len(found[i]) == 0:
			q.Notes = append(q.Notes, noKernels(t))
		}
		for _, k := range found[i] {
			q.offered[k.Flavour] = true
			if batch.Wanted(q.Flavours, k.Flavour) {
				rows = append(rows, q.row(t, k))
			}
		}
	}
	if failed == 0 {
		return rows, q.checkFlavours()
	}
	err = batch.JoinErrors(errs, func(i int) string { return batch.Platform(q.targets[i]) })
	if failed < len(errs) {
		err = fmt.Errorf("%d of %d systems: %w:\n%w", failed, len(errs), batch.ErrSomeFailed, err)
	}
	return rows, err
}

// packaged says whether packages of the system can have kernel headers.
func packaged(t matrix.Target) bool {
	return t.Distro == nil || recipe.CheckPackaged(t.Distro) == nil
}

// noKernels says why a platform has no kernels, and what to ask instead.
func noKernels(t matrix.Target) string {
	if !packaged(t) {
		return fmt.Sprintf("kernel headers of %s come with the host and are in no package: --from IMAGE lists the kernels of an image that has them", batch.Platform(t))
	}
	return fmt.Sprintf("the package repositories of %s offer no kernel headers", batch.Platform(t))
}

// kernels asks the repositories of one platform, unless no package of the system can have headers.
func (q *KernelQuery) kernels(ctx context.Context, b *images.Builder, t matrix.Target) (found []offer, err error) {
	switch {
	case len(q.From) > 0:
		all, err := b.HeadersKernels(ctx, q.From, t.Arch)
		for _, k := range all {
			found = append(found, offer{DatedKernel: images.DatedKernel{Kernel: k.Kernel.Kernel}, from: k.Ref, compiler: k.Compiler})
		}
		return found, err
	case !packaged(t):
		return nil, nil
	case q.Dates:
		all, err := b.DatedKernels(ctx, t, q.Plan)
		for _, k := range all {
			found = append(found, offer{DatedKernel: k})
		}
		return found, err
	}
	all, err := b.Kernels(ctx, t, q.Plan)
	for _, k := range all {
		found = append(found, offer{DatedKernel: images.DatedKernel{Kernel: k}})
	}
	return found, err
}

// offer is a kernel, and the image that has it.
type offer struct {
	images.DatedKernel
	from, compiler string
}

// checkImages finds mistakes in what is asked of images.
func (q *KernelQuery) checkImages() error {
	for _, ref := range q.From {
		if err := registry.CheckSource(ref); err != nil {
			return failure.Errorf(failure.Usage, "--from: %w", err)
		}
	}
	if q.Dates || q.Plan.Base != "" || q.Plan.Mirror != "" {
		return failure.Errorf(failure.Usage, "--from asks no package repository: leave --base, --mirror and --dates out")
	}
	return nil
}

// checkFlavours refuses a flavour that no system has: most likely it is misspelt.
func (q *KernelQuery) checkFlavours() error {
	for _, flavour := range q.Flavours {
		if q.offered[flavour] {
			continue
		}
		known := slices.Sorted(maps.Keys(q.offered))
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

// listTags asks once for what the repository has. A registry that does not say is no failure: it is the smaller part of the
// answer.
func (q *KernelQuery) listTags(ctx context.Context, b *images.Builder) error {
	if q.Repository == "" {
		return nil
	}
	tags, err := listTags(ctx, b, q.Repository)
	if _, ok := errors.AsType[*registry.Error](err); ok || errors.Is(err, fetch.ErrOffline) {
		q.Notes = append(q.Notes, fmt.Sprintf("which images exist is not known: %v", err))
		return nil
	}
	q.tags = map[string]bool{}
	for _, tag := range tags {
		q.tags[tag] = true
	}
	return err
}

// row says what can be done with a kernel.
func (q *KernelQuery) row(t matrix.Target, k offer) OfferedKernel {
	r := OfferedKernel{
		System: t.System.ID, Arch: t.Arch, Kernel: k.Release, Flavour: k.Flavour, Default: k.Default, Package: k.Headers, Version: k.Version,
		Drivers: []string{}, From: k.from, Built: k.compiler,
	}
	if !k.Date.IsZero() {
		r.Date = k.Date.Format(time.RFC3339)
	}
	var ready, tags []string
	for _, d := range q.Matrix.Drivers {
		if !batch.Wanted(q.Selection.Drivers, d.Version) {
			continue
		}
		t.Driver = d
		tag, aliases := recipe.KernelTags(t, k.Release)
		ready = append(append(ready, tag), aliases...)
		if q.compatible[batch.Platform(t)+" "+d.Version] && recipe.AnyFlavour(d, k.Kernel, q.modules(d)) {
			r.Drivers = append(r.Drivers, d.Version)
			tags = append(tags, t.Tag())
		}
	}
	if q.tags != nil {
		r.Ready, r.Images = q.present(ready), q.present(append(tags, ready...))
	}
	return r
}

// present are the tags that the repository has.
func (q *KernelQuery) present(tags []string) []string {
	tags = slices.DeleteFunc(slices.Clone(tags), func(tag string) bool { return !q.tags[tag] })
	slices.Sort(tags)
	return append([]string{}, slices.Compact(tags)...)
}
