package status

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/releases"
)

// ReportOptions say what a page shows beside the pairs.
type ReportOptions struct {
	Title, Tool string // of the page; name and version of the program
	MatrixFile  string // "": the embedded one
	Matrix      *matrix.Matrix
	Releases    *releases.Table // of the drivers there are
	Time        time.Time       // of the page
	Advisor     releases.Advisor
	CUDA        *releases.CUDA // to say how each driver runs it; nil: none
	// plan every image, also without a lock, to tell which are out of date
	Compare bool
}

// reporter asks about all cells of a page.
type reporter struct {
	survey   survey
	compares bool     // images with what they would be made from now
	tags     []string // of the repository, nil where it does not list them

	mu      sync.Mutex
	unknown []images.Cause // images that could not be compared
}

// Report makes the page that shows pairs: what is built of them and what is not.
func Report(
	ctx context.Context,
	builder *images.Builder,
	q Query,
	pairs []Pair,
	o ReportOptions,
) (shown Page, err error) {
	shown = emptyPage(q.Repository, pairs, o)
	r := &reporter{survey: survey{query: q, builder: builder}}
	r.compares = q.Repository != "" && (o.Compare || q.Request.Lock != nil)
	if q.Repository != "" {
		// A registry that answers anything at all is asked further questions. Without any answer
		// there is no page: an old page is better than a page that knows nothing.
		r.tags, err = listTags(ctx, builder, q.Repository)
		_, answered := errors.AsType[*registry.StatusError](err)
		if answered || errors.Is(err, fs.ErrNotExist) {
			note := fmt.Sprintf("images with compiled modules are not shown: %v", err)
			shown.Notes = append(shown.Notes, note)
			err = nil
		}
		if err != nil {
			return shown, err
		}
	}
	shown.Cells = make([]Cell, len(pairs))
	errs := images.Parallel(ctx, builder.Jobs, len(pairs), func(i int) error {
		shown.Cells[i] = r.cell(ctx, pairs[i])
		return context.Cause(ctx)
	})
	err = errors.Join(errs...)
	if err != nil {
		return shown, err
	}
	byText := func(a, b images.Cause) int { return strings.Compare(a.Text, b.Text) }
	slices.SortFunc(r.unknown, byText)
	for _, c := range r.unknown {
		const format = "whether %d images are out of date could not be found out: %s"
		shown.Notes = append(shown.Notes, fmt.Sprintf(format, len(c.Targets), c.Text))
	}
	return shown, nil
}

// emptyPage has what the matrix and the table of drivers say: rows, columns and headings. The
// newest driver comes first.
func emptyPage(repository string, pairs []Pair, o ReportOptions) Page {
	shown := Page{
		Title:      o.Title,
		Generated:  o.Time,
		Tool:       o.Tool,
		Repository: repository,
		Matrix:     filepath.Base(cmp.Or(o.MatrixFile, "matrix.yaml")),
	}
	there := map[string]bool{}
	for _, p := range pairs {
		there[p.System] = true
		there[p.Driver] = true
	}
	for _, s := range o.Matrix.Systems {
		if there[s.ID] {
			shown.Systems = append(shown.Systems, s)
		}
	}
	for _, d := range slices.Backward(o.Matrix.Drivers) {
		if there[d.Version] {
			shown.Drivers = append(shown.Drivers, column(d, pairs, o))
		}
	}
	return shown
}

// column says what is known of a driver.
func column(d matrix.Driver, pairs []Pair, o ReportOptions) Column {
	c := Column{Driver: d, CUDA: releases.CUDAOf(d.Version, d.CUDA)}
	if o.CUDA != nil {
		answer := o.CUDA.RunByDriver(d)
		c.Runs = strings.TrimSuffix(
			fmt.Sprintf("CUDA %s: %s: %s", o.CUDA.Version, answer.Support, answer.Why),
			": ",
		)
	}
	exposure := o.Advisor.Vulnerabilities().Exposure(d.Version)
	if exposure != nil {
		c.Faults = append(c.Faults, exposure.Explain())
	}
	for _, n := range o.Advisor.Notes(d) {
		if n.Kind != driverinfo.EndOfLife {
			c.Faults = append(c.Faults, n.Text(o.Time))
		}
	}
	if branch, ok := o.Releases.Branch(d.Branch); ok {
		c.Of = branch.Coverage(o.Matrix, o.Advisor, nil)
	}
	c.Components, c.Unknown = componentArchs(pairs, d.Version)
	return c
}

// componentArchs returns the components of a driver with the architectures of the pairs that get them,
// and those that pairs go without because their checksum is not known: "fabricmanager (amd64,
// arm64)".
func componentArchs(pairs []Pair, version string) (known, unknown []string) {
	with := map[string][]string{}
	without := map[string][]string{}
	for _, p := range pairs {
		for _, c := range p.Components {
			archs := with
			if c.SHA256 == "" {
				archs = without
			}
			if p.Driver == version && !slices.Contains(archs[c.Name], p.Arch) {
				archs[c.Name] = append(archs[c.Name], p.Arch)
			}
		}
	}
	list := func(archs map[string][]string) (all []string) {
		for _, name := range slices.Sorted(maps.Keys(archs)) {
			slices.Sort(archs[name])
			all = append(all, name+" ("+strings.Join(archs[name], ", ")+")")
		}
		return all
	}
	return list(with), list(without)
}

// cell says all that is known of a pair.
func (r *reporter) cell(ctx context.Context, p Pair) Cell {
	c := Cell{Pair: p}
	if p.Excluded != "" {
		c.State = Excluded
		c.Why = p.Excluded
		return c
	}
	t := p.Target
	for _, series := range t.System.Kernels {
		if recipe.AnyFlavour(t.Driver, distros.Kernel{Release: series}, t.Flavours) {
			c.Kernels = append(c.Kernels, series)
		}
	}
	c.Modules = r.kernelTags(t)
	if r.survey.query.Repository == "" {
		c.State = Buildable
		return c
	}
	st := r.look(ctx, t)
	c.State = st.State
	c.Why = st.Why
	switch st.State {
	case Current, Present:
		c.State = Built
	case Missing:
		c.Why = strings.TrimPrefix(st.Why, "not in the registry")
	}
	if st.Found == nil {
		return c
	}
	labels := st.Found.Manifest.Annotations
	c.Digest = st.Found.Digest.String()
	for _, l := range st.Found.Manifest.Layers {
		c.Size += l.Size
	}
	c.Created, _ = time.Parse(time.RFC3339, labels[recipe.OCIPrefix+"created"])
	if c.Created.Unix() <= 0 { // without SOURCE_DATE_EPOCH images say 1970, which means nothing
		c.Created = time.Time{}
	}
	inside(&c, labels)
	return c
}

// inside sets what the labels of the registry's image say of it.
func inside(c *Cell, labels map[string]string) {
	if kernels := labels[recipe.LabelKernels]; kernels != "" {
		c.Modules = append(strings.Split(kernels, ","), c.Modules...)
	}
	c.Companions = nil
	c.Patches = nil
	c.Omitted = labels[recipe.LabelOmitted]
	if names := labels[recipe.LabelCompanions]; names != "" {
		c.Companions = strings.Split(names, ", ")
	}
	for patch := range strings.SplitSeq(labels[recipe.LabelPatches], ", ") {
		if name, _, _ := strings.Cut(patch, " "); name != "" {
			c.Patches = append(c.Patches, name)
		}
	}
}

// look asks for the image of a target. It is compared only if it is known what it would be made
// from now.
func (r *reporter) look(ctx context.Context, t matrix.Target) ImageState {
	if !r.compares {
		return r.survey.state(ctx, t.Tag(), t.Arch, nil)
	}
	drafts, err := r.survey.builder.Drafts(ctx, r.survey.query.Request, t)
	var st ImageState
	if err == nil {
		st, err = r.survey.compare(ctx, drafts[0])
	} else {
		st = r.survey.state(ctx, t.Tag(), t.Arch, nil)
	}
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		cause := images.CauseOf(err, t.Tag())
		r.unknown = images.AddCause(r.unknown, cause, t.Tag()+" "+t.Arch)
	}
	return st
}

// kernelTags are the kernels that the repository has images with compiled modules for, as their
// tags name them.
func (r *reporter) kernelTags(t matrix.Target) (kernels []string) {
	other := []string{"arm64", "aarch64"}
	if t.Arch == "arm64" {
		other = []string{"amd64", "x86_64"}
	}
	for _, tag := range r.tags {
		tag = strings.TrimSuffix(tag, recipe.ModulesSuffix)
		front := t.Driver.Version + "-"
		back := "-" + t.System.ID
		if len(tag) <= len(front)+len(back) || !strings.HasPrefix(tag, front) ||
			!strings.HasSuffix(tag, back) {
			continue
		}
		kernel := tag[len(front) : len(tag)-len(back)]
		if !slices.Contains(kernels, kernel) &&
			!slices.ContainsFunc(
				other,
				func(arch string) bool { return strings.Contains(kernel, arch) },
			) {
			kernels = append(kernels, kernel)
		}
	}
	return kernels
}
