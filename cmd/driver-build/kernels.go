package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
)

// kernelsOptions are the flags of the command.
type kernelsOptions struct {
	selection  selection // systems, drivers, archs and matrixFile only
	flavours   []string
	repository string
	plan       recipe.Options // Base and Mirror only
	dates      bool
	format     string
}

// kernelRow is one kernel of one system.
type kernelRow struct {
	System  string   `json:"os"`
	Arch    string   `json:"arch"`
	Kernel  string   `json:"kernel"`
	Flavour string   `json:"flavour"`
	Default bool     `json:"default"`
	Package string   `json:"package"`
	Version string   `json:"version"`
	Date    string   `json:"date,omitempty"` // RFC 3339, with --dates where the mirror says it
	Drivers []string `json:"drivers"`        // of the matrix, that compile on it
	Images  []string `json:"images"`         // tags in the repository; null: not known
}

func newKernelsCmd(a *app) *cobra.Command {
	var o kernelsOptions
	cmd := &cobra.Command{
		Use: "kernels --os SYSTEM", Short: "List the kernels that a system's package repositories offer", Args: noArgs,
		Long: "List the kernels that the package repositories of a system offer headers for, which drivers of the matrix compile on\n" +
			"each, and which images for it the registry has. DEFAULT marks the series that the system installs unless told\n" +
			"otherwise: it is what --kernel latest means.",
		Example: "  driver-build kernels --os debian12\n  driver-build kernels --os ubuntu22.04 --kernel-flavour aws --driver 535.261.03 --repository registry.example.com/gpu/driver",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.kernels(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.selection.systems, "os", nil, "operating system, such as debian12 (repeatable)")
	f.StringArrayVar(&o.selection.archs, "arch", nil, "architecture: amd64 or arm64 (repeatable; default amd64)")
	f.StringArrayVar(&o.selection.drivers, "driver", nil, "driver version to look at (repeatable; default every one of the matrix)")
	f.StringVar(&o.selection.matrixFile, "matrix", "", "the version matrix (default ./matrix.yaml, else the one in this program)")
	f.StringArrayVar(&o.flavours, "kernel-flavour", nil, "only kernels of a flavour, such as cloud-amd64 or aws (repeatable)")
	f.StringVar(&o.repository, "repository", "", "REGISTRY/PATH to look for images in (default: the matrix's)")
	f.StringVar(&o.plan.Base, "base", "", "base image instead of the row's: REF, oci:DIR[:TAG], oci-archive:FILE or docker-archive:FILE")
	f.StringVar(&o.plan.Mirror, "mirror", "", "package mirror instead of the addresses in the base's configuration: URL or PREFIX=URL")
	f.BoolVar(&o.dates, "dates", false, "ask the mirror for the date of each kernel")
	f.StringVarP(&o.format, "format", "o", "table", "table or json")
	return cmd
}

// listing is one call of the command, its flags checked.
type listing struct {
	app      *app
	options  kernelsOptions
	matrix   *matrix.Matrix
	places   []matrix.Target // a system and an architecture each, without driver
	serving  map[string]bool // place and driver that the matrix allows
	tags     map[string]bool // in the repository; nil: not known
	rows     [][]kernelRow   // by place
	flavours map[string]bool // of all kernels that are offered
	notes    []string        // for stderr, when the display has ended
}

func (a *app) kernels(ctx context.Context, o kernelsOptions) error {
	m, err := o.selection.load()
	if err != nil {
		return err
	}
	if o.format != "table" && o.format != "json" {
		return usageError{fmt.Errorf("-o %q is not known: use table or json", o.format)}
	}
	if o.repository == "" {
		o.repository = m.Defaults.Repository
	}
	l := &listing{app: a, options: o, matrix: m, serving: map[string]bool{}}
	if err := l.choose(); err != nil {
		return usageError{err}
	}
	l.rows, l.flavours = make([][]kernelRow, len(l.places)), map[string]bool{}
	failed := a.with(ctx, m.Defaults.Mirrors, "", l.run)
	for _, n := range l.notes {
		fmt.Fprintln(a.stderr, "note: "+n)
	}
	if failed != nil && !errors.Is(failed, errSomeFailed) {
		return failed
	}
	return errors.Join(failed, a.printKernels(slices.Concat(l.rows...), o))
}

// choose asks the matrix which systems, architectures and drivers are meant.
func (l *listing) choose() error {
	s := l.options.selection
	if len(s.systems) == 0 {
		return errors.New("give --os SYSTEM; driver-build list shows the systems there are")
	}
	if len(s.systems) > 1 && l.options.plan.Base != "" {
		return errors.New("--base is of one system: give one --os")
	}
	if len(s.archs) == 0 {
		s.archs = []string{"amd64"}
	}
	chosen := matrix.Selection{Systems: s.systems, Drivers: s.drivers, Archs: s.archs, All: true}
	targets, err := l.matrix.Select(chosen)
	if err != nil {
		return err
	}
	for _, t := range targets {
		l.serving[place(t)+" "+t.Driver.Version] = true
	}
	for _, sys := range l.matrix.Systems {
		for _, arch := range slices.Compact(slices.Sorted(slices.Values(s.archs))) {
			if !slices.Contains(s.systems, sys.ID) {
				continue
			}
			if !slices.Contains(sys.Archs, arch) {
				return fmt.Errorf("--arch %s: the matrix has %s for %s only", arch, sys.ID, strings.Join(sys.Archs, ", "))
			}
			distro, err := distros.Lookup(sys.ID)
			if err != nil {
				return err
			}
			l.places = append(l.places, matrix.Target{System: sys, Distro: distro, Arch: arch})
		}
	}
	if len(s.drivers) > 0 {
		for _, no := range l.matrix.Impossible(chosen) {
			l.notes = append(l.notes, no.Error())
		}
	}
	return nil
}

func place(t matrix.Target) string { return t.System.ID + " " + t.Arch }

// run lists all places. One that fails does not stop the others.
func (l *listing) run(ctx context.Context, s *session) error {
	var eg errgroup.Group
	eg.SetLimit(max(1, l.app.jobs/2) + 1)
	eg.Go(func() error { return l.listTags(ctx, s) })
	errs := make([]error, len(l.places))
	found := make([][]images.DatedKernel, len(l.places))
	for i, t := range l.places {
		eg.Go(func() error {
			if errs[i] = context.Cause(ctx); errs[i] == nil {
				found[i], errs[i] = l.list(ctx, s, t)
			}
			return nil
		})
	}
	if err := eg.Wait(); err != nil {
		return err
	}
	for i, t := range l.places {
		if errs[i] == nil && len(found[i]) == 0 {
			l.notes = append(l.notes, fmt.Sprintf("the package repositories of %s offer no kernel headers", place(t)))
		}
		for _, k := range found[i] {
			l.flavours[k.Flavour] = true
			if wantedIn(l.options.flavours, k.Flavour) {
				l.rows[i] = append(l.rows[i], l.row(t, k))
			}
		}
	}
	failed := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	switch {
	case len(failed) == 0:
		return l.checkFlavours()
	case len(failed) == len(errs):
		return errors.Join(errs...)
	}
	return fmt.Errorf("%d of %d systems: %w:\n%w", len(failed), len(errs), errSomeFailed, errors.Join(failed...))
}

// list asks the repositories of one place.
func (l *listing) list(ctx context.Context, s *session, t matrix.Target) (found []images.DatedKernel, err error) {
	if l.options.dates {
		return s.builder.DatedKernels(ctx, t, l.options.plan)
	}
	all, err := s.builder.Kernels(ctx, t, l.options.plan)
	for _, k := range all {
		found = append(found, images.DatedKernel{Kernel: k})
	}
	return found, err
}

// checkFlavours refuses a flavour that no system has: most likely it is misspelt.
func (l *listing) checkFlavours() error {
	for _, flavour := range l.options.flavours {
		if l.flavours[flavour] {
			continue
		}
		known := slices.Sorted(maps.Keys(l.flavours))
		hint := "there are " + strings.Join(known, ", ")
		if near := distros.Nearest(flavour, known); len(near) > 0 {
			hint = "did you mean " + strings.Join(near, ", ") + "?"
		}
		return usageError{fmt.Errorf("--kernel-flavour %q: the repositories have no kernel of it: %s", flavour, hint)}
	}
	return nil
}

// listTags asks the registry once for what it has. A registry that does not say is no failure: it is the smaller part of the
// answer.
func (l *listing) listTags(ctx context.Context, s *session) error {
	if l.options.repository == "" {
		return nil
	}
	step := s.display.stepFor(l.options.repository, "list the tags")
	tags, err := s.registry.ListTags(ctx, l.options.repository)
	if ctx.Err() != nil {
		return step.End(false, err)
	}
	_ = step.End(false, nil) // what went wrong is in the notes
	if is[*registry.Error](err) || errors.Is(err, fetch.ErrOffline) {
		l.notes = append(l.notes, fmt.Sprintf("which images exist is not known: %v", err))
		return nil
	}
	if err != nil {
		return usageError{fmt.Errorf("--repository: %w", err)}
	}
	l.tags = map[string]bool{}
	for _, tag := range tags {
		l.tags[tag] = true
	}
	return nil
}

// row says what can be done with a kernel.
func (l *listing) row(t matrix.Target, k images.DatedKernel) kernelRow {
	r := kernelRow{
		System: t.System.ID, Arch: t.Arch, Kernel: k.Release, Flavour: k.Flavour, Default: k.Default, Package: k.Headers, Version: k.Version,
		Drivers: []string{},
	}
	if !k.Date.IsZero() {
		r.Date = k.Date.Format(time.RFC3339)
	}
	var tags []string
	for _, d := range l.matrix.Drivers {
		if !wantedIn(l.options.selection.drivers, d.Version) {
			continue
		}
		t.Driver = d
		tag, aliases := recipe.KernelTags(t, k.Release)
		tags = append(append(tags, tag), aliases...)
		if l.serving[place(t)+" "+d.Version] && recipe.CheckKernel(d, k.Release) == nil {
			r.Drivers = append(r.Drivers, d.Version)
			tags = append(tags, t.Tag())
		}
	}
	if l.tags != nil {
		r.Images = slices.DeleteFunc(tags, func(tag string) bool { return !l.tags[tag] })
		slices.Sort(r.Images)
		r.Images = append([]string{}, slices.Compact(r.Images)...)
	}
	return r
}
