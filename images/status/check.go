package status

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/releases"
)

// Verdict is the answer to one question about a pair.
type Verdict struct {
	State  string `json:"state"` // one of those below
	Detail string `json:"detail,omitempty"`
	Cause  string `json:"cause,omitempty"` // of a failure: equal for all pairs that it hits
}

// The states of a verdict.
const (
	VerdictOK      = "ok"
	VerdictFailed  = "failed"
	VerdictUnknown = "unknown" // could not be found out, or means nothing
	VerdictNone    = "none"    // there is nothing to ask
)

// Checked is what was found out about one pair.
type Checked struct {
	System string `json:"os"`
	Driver string `json:"driver"`
	Arch   string `json:"arch"`
	Tag    string `json:"tag"`
	// the rule that says why it cannot be built; nothing else was asked then
	Excluded string   `json:"excluded,omitempty"`
	Base     *Verdict `json:"base,omitempty"`
	Archive  *Verdict `json:"archive,omitempty"`
	// Components is about the archives of the driver's components for NVSwitch and NVLink.
	Components *Verdict    `json:"components,omitempty"`
	Headers    *Verdict    `json:"headers,omitempty"` // and compiler, for the kernel in Kernel
	Kernel     string      `json:"kernel,omitempty"`  // the newest that the driver compiles on
	Kernels    int         `json:"kernels"`           // how many are offered that it compiles on
	Lock       *Verdict    `json:"lock,omitempty"`    // whether what was locked is still there
	Image      *ImageState `json:"image,omitempty"`
	Broken     bool        `json:"broken"`

	Advisories []releases.Note `json:"advisories,omitempty"` // what is known of the driver
}

// Verdicts are the answers about what a build needs, as far as was asked.
func (c *Checked) Verdicts() []*Verdict {
	all := []*Verdict{c.Base, c.Archive, c.Components, c.Headers, c.Lock}
	return slices.DeleteFunc(all, func(v *Verdict) bool { return v == nil })
}

// Check looks at all pairs, several at a time: whether each could be built now, and whether its
// image is there. Where the programs for images are missing, the image cannot be compared.
func Check(
	ctx context.Context,
	builder *images.Builder,
	q Query,
	pairs []Pair,
) ([]Checked, error) {
	s := &survey{query: q, builder: builder}
	rows := make([]Checked, len(pairs))
	errs := images.Parallel(ctx, builder.Jobs, len(pairs), func(i int) error {
		p := pairs[i]
		rows[i] = Checked{
			System:     p.System,
			Driver:     p.Driver,
			Arch:       p.Arch,
			Tag:        p.Tag,
			Excluded:   p.Excluded,
			Advisories: p.Advisories,
		}
		if p.Excluded == "" {
			s.checkPair(ctx, &rows[i], p.Target)
		}
		return context.Cause(ctx)
	})
	return rows, errors.Join(errs...)
}

// checkPair answers all questions about one pair.
func (s *survey) checkPair(ctx context.Context, row *Checked, t matrix.Target) {
	q := s.query.Request
	d, err := images.NewDraft(t, q.Options)
	if err != nil {
		row.Archive = failed(err)
		row.Broken = true
		return
	}
	row.Base = s.base(ctx, d)
	row.Archive, row.Components = s.archives(ctx, d.Recipe)
	row.Headers = &Verdict{State: VerdictUnknown}
	if row.Base.State != VerdictFailed { // else the same reason would be given twice
		row.Headers = s.headers(ctx, row, t)
	}
	if len(q.Options.KernelFrom) > 0 && row.Kernel != "" {
		// the image that a build with the flag makes
		q.Options.Kernels = []string{row.Kernel}
		d, err = images.NewDraft(t, q.Options)
		if err == nil {
			row.Tag = d.Recipe.Tag
		}
	}
	compare := err == nil // with the image in the registry
	if q.Lock != nil {
		drafts, err := s.builder.Drafts(ctx, q, t)
		row.Lock, compare = s.locked(ctx, drafts, err)
		if len(drafts) > 0 {
			d = drafts[0]
		}
	}
	if s.query.Repository != "" {
		// not compared: the pins cannot be found, or the programs are not beside driver-build
		var r *recipe.Recipe
		if compare && s.builder.Complete(ctx, d) == nil {
			r = d.Recipe
		}
		st := s.state(ctx, row.Tag, t.Arch, r)
		row.Image = &st
	}
	isFailed := func(v *Verdict) bool { return v.State == VerdictFailed }
	row.Broken = slices.ContainsFunc(row.Verdicts(), isFailed)
}

// locked asks for everything that is locked of an image: base and packages. fits is false for an
// image whose lock no longer fits, which is a failure; one that is not locked is none.
func (s *survey) locked(
	ctx context.Context,
	drafts []*images.Draft,
	err error,
) (v *Verdict, fits bool) {
	if errors.Is(err, images.ErrNotLocked) {
		return &Verdict{State: VerdictNone, Detail: "not locked"}, true
	}
	if err == nil {
		err = s.builder.Resolve(ctx, drafts[0])
	}
	if err != nil {
		return failed(err), false
	}
	v = s.base(ctx, drafts[0])
	if v.State == VerdictFailed {
		return v, true
	}
	all := drafts[0].Recipe.AllPackages()
	closed := 0
	for _, p := range all {
		_, err := s.size(ctx, p.URL)
		status, ok := errors.AsType[*fetch.StatusError](err)
		if ok && (status.Code == http.StatusUnauthorized || status.Code == http.StatusForbidden) {
			// of a subscription: a build has its certificates from the base's configuration, which
			// is not read here
			closed++
			continue
		}
		v = s.files(ctx, file{"", recipe.PackageFile(p)})
		if v.State == VerdictFailed {
			return v, true
		}
	}
	if closed > 0 {
		detail := fmt.Sprintf(
			"%d of %d locked packages are on servers that want a login or a certificate, which "+
				"check does not use",
			closed,
			len(all),
		)
		return &Verdict{State: VerdictUnknown, Detail: detail}, true
	}
	return &Verdict{State: VerdictOK, Detail: fmt.Sprintf("base and %d packages", len(all))}, true
}

func failed(err error) *Verdict {
	return &Verdict{VerdictFailed, oneLine(err.Error()), images.CauseOf(err, "")}
}

// base asks for the manifest of an image's base.
func (s *survey) base(ctx context.Context, d *images.Draft) *Verdict {
	ref := d.Base()
	arch := d.Recipe.Arch
	digest, err := s.bases.Get(ctx, ref+" "+arch, func() (string, error) {
		found, err := s.builder.Registry.Open(ctx, ref, registry.OpenOptions{Arch: arch})
		if err != nil {
			return "", err
		}
		return found.Digest.String(), nil
	})
	if err != nil {
		return failed(err)
	}
	return &Verdict{State: VerdictOK, Detail: digest}
}

// archives asks for the size of the driver's archive, with patches that are at an address and
// archives of companions, and of the archives of the driver's components. A driver that comes as
// packages has no archive; companions in packages are in the lock.
func (s *survey) archives(
	ctx context.Context,
	r *recipe.Recipe,
) (archive, components *Verdict) {
	var beside, fabric []file
	var names []string
	for _, p := range r.Patches {
		if p.URL != "" {
			address := fetch.File{URL: p.URL, SHA256: p.SHA256}
			beside = append(beside, file{"patch " + p.Name + ": ", address})
		}
	}
	for _, c := range r.Companions {
		if c.File != nil {
			beside = append(beside, file{"companion " + c.Name + ": ", *c.File})
		}
	}
	for _, c := range r.Fabric {
		fabric = append(fabric, file{c.Name + ": ", c.File})
		names = append(names, c.Name+" "+c.Version)
	}
	components = s.files(ctx, fabric...)
	if components.State == VerdictOK {
		components.Detail = strings.Join(names, ", ")
	}
	archive = s.files(ctx, beside...)
	switch {
	case archive.State == VerdictFailed:
		return archive, components
	case r.Source.Archive() == nil:
		return &Verdict{State: VerdictNone}, components
	}
	return s.files(ctx, file{"", *r.Source.Archive()}), components
}

// file is a file to ask for, and what begins a text about it.
type file struct {
	about string
	fetch.File
}

// files asks whether files are there with the size that they should have. The answer is the worst
// one.
func (s *survey) files(ctx context.Context, all ...file) *Verdict {
	worst := &Verdict{State: VerdictNone}
	for _, f := range all {
		size, err := s.size(ctx, f.URL)
		switch {
		case errors.Is(err, fetch.ErrOffline):
			worst = &Verdict{State: VerdictUnknown, Detail: f.about + "--offline"}
		case err != nil:
			v := failed(err)
			v.Detail = f.about + v.Detail
			return v
		case f.Size > 0 && size > 0 && f.Size != size:
			return &Verdict{State: VerdictFailed, Detail: fmt.Sprintf("%s%s has %d bytes, and should have %d", f.about, f.URL, size, f.Size)}
		case size == 0:
			worst = &Verdict{State: VerdictUnknown, Detail: f.about + "the server does not say how large " + f.URL + " is"}
		case worst.State != VerdictUnknown:
			worst = &Verdict{State: VerdictOK, Detail: fmt.Sprintf("%d bytes", size)}
		}
	}
	return worst
}

func (s *survey) size(ctx context.Context, address string) (int64, error) {
	return s.sizes.Get(ctx, address, func() (int64, error) {
		size, _, err := s.builder.Fetch.Stat(ctx, address)
		return size, err
	})
}

// headers plans an image with compiler and headers for the newest kernel that the driver compiles
// on. Where there is no such kernel, it plans the image without. Images that offer kernels take the
// place of the repositories, and bring the compiler.
func (s *survey) headers(ctx context.Context, row *Checked, t matrix.Target) *Verdict {
	o := s.query.Request.Options
	offered, err := s.builder.Offered(ctx, t, o)
	if err != nil {
		return failed(err)
	}
	for _, k := range offered {
		if recipe.CheckFlavours(t.Driver, k, recipe.CompiledFlavours(t, nil)) == nil {
			row.Kernels++
		}
	}
	d, detail := s.newestKernel(ctx, row, t, len(offered))
	if d == nil {
		d, err = images.NewDraft(t, o)
	}
	if err == nil {
		err = s.builder.Resolve(ctx, d)
	}
	if err != nil {
		return failed(err)
	}
	if row.Kernel == "" {
		return &Verdict{State: VerdictNone, Detail: detail}
	}
	return &Verdict{State: VerdictOK, Detail: detail}
}

// newestKernel returns the draft of an image for the newest kernel, or says why there is none.
func (s *survey) newestKernel(
	ctx context.Context,
	row *Checked,
	t matrix.Target,
	offered int,
) (d *images.Draft, detail string) {
	o := s.query.Request.Options
	by := images.OfferedBy(o)
	switch {
	case offered == 0:
		return nil, "the " + by + " offer no kernel headers"
	case row.Kernels == 0:
		const format = "the driver compiles on none of the %d kernels that the %s offer"
		return nil, fmt.Sprintf(format, offered, by)
	}
	from := len(o.KernelFrom) > 0
	o.Toolchain = !from
	q := images.Request{Options: o, Kernels: []string{"latest"}}
	if from && row.Kernels == 1 { // needs no --kernel, whatever its flavour
		q.Kernels = nil
	}
	drafts, err := s.builder.Drafts(ctx, q, t)
	if err != nil { // kernels of other flavours only
		return nil, oneLine(err.Error())
	}
	row.Kernel = drafts[0].Recipe.Kernels[0].Release
	return drafts[0], row.Kernel
}
