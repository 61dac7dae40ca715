package status

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/releases"
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
	// its known CVEs; nil if none is known
	Exposure *releases.Exposure `json:"vulnerabilities,omitempty"`
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
			Exposure:   p.Exposure,
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
