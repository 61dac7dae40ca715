package status

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
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
	System   string   `json:"os"`
	Driver   string   `json:"driver"`
	Arch     string   `json:"arch"`
	Tag      string   `json:"tag"`
	Excluded string   `json:"excluded,omitempty"` // the rule that says why it cannot be built; nothing else was asked then
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

// Check looks at all pairs, several at a time: whether each could be built now, and whether its image is
// there. Where the programs for images are missing, the image cannot be compared.
func Check(ctx context.Context, b *batch.Batch, builder *images.Builder, pairs []batch.Pair) ([]Checked, error) {
	s, err := newSurvey(builder)
	if err != nil {
		return nil, err
	}
	rows := make([]Checked, len(pairs))
	errs := batch.Parallel(ctx, s.online.Jobs, len(pairs), func(i int) error {
		p := pairs[i]
		rows[i] = Checked{System: p.System, Driver: p.Driver, Arch: p.Arch, Tag: p.Tag, Excluded: p.Excluded, Advisories: p.Advisories}
		if p.Excluded == "" {
			s.checkPair(ctx, b, &rows[i], p.Target)
		}
		return context.Cause(ctx)
	})
	return rows, errors.Join(errs...)
}

// checkPair answers all questions about one pair.
func (s *survey) checkPair(ctx context.Context, b *batch.Batch, row *Checked, t matrix.Target) {
	im := batch.Image{Target: t, Plan: b.Plan}
	row.Base = s.base(ctx, im.Base(), t.Arch)
	row.Archive = s.archive(ctx, im)
	row.Components = s.components(ctx, im)
	row.Headers = &Verdict{State: VerdictUnknown}
	if row.Base.State != VerdictFailed { // else the same reason would be given twice
		row.Headers = s.headers(ctx, &b.Kernels, row, im)
	}
	if len(b.Kernels.From) > 0 && row.Kernel != "" { // the image that a build with the flag makes
		im.Plan.Kernels, im.Plan.KernelFrom = []string{row.Kernel}, b.Kernels.From
		row.Tag = im.Tag()
	}
	var lockErr error
	if b.Lock != nil {
		var pins *recipe.Pins
		if pins, lockErr = b.LockedPins(im); lockErr == nil {
			im.Pins = pins
		}
		row.Lock = s.lockedFiles(ctx, b, im, lockErr)
	}
	if b.Repository != "" {
		st := s.state(ctx, b.Repository+":"+row.Tag, t.Arch, s.comparable(ctx, b, im, lockErr))
		st.Why = oneLine(st.Why)
		row.Image = &st
	}
	for _, v := range []*Verdict{row.Base, row.Archive, row.Components, row.Headers, row.Lock} {
		row.Broken = row.Broken || v != nil && v.State == VerdictFailed
	}
}

// lockedFiles asks for everything that is locked: base and packages. err says why there are no pins; a pair
// that is not locked is no failure, a section that no longer fits is one.
func (s *survey) lockedFiles(ctx context.Context, b *batch.Batch, im batch.Image, err error) *Verdict {
	if err != nil {
		if _, ok := b.Lock.Find(im.Tag(), im.Target.Arch); !ok {
			return &Verdict{State: VerdictNone, Detail: "not locked"}
		}
		return failed(err)
	}
	if v := s.base(ctx, im.Base(), im.Target.Arch); v.State == VerdictFailed {
		return v
	}
	all := im.Pins.All()
	closed := 0
	for _, p := range all {
		_, err := s.size(ctx, p.URL)
		status, ok := errors.AsType[*fetch.StatusError](err)
		if ok && (status.Code == http.StatusUnauthorized || status.Code == http.StatusForbidden) {
			closed++ // of a subscription: a build has its certificates from the base's configuration, which is not read here
			continue
		}
		if v := s.file(ctx, fetch.File{URL: p.URL, Size: p.Size}); v.State == VerdictFailed {
			return v
		}
	}
	if closed > 0 {
		return &Verdict{State: VerdictUnknown, Detail: fmt.Sprintf(
			"%d of %d locked packages are on servers that want a login or a certificate, which check does not use", closed, len(all))}
	}
	return &Verdict{State: VerdictOK, Detail: fmt.Sprintf("base and %d packages", len(all))}
}

// comparable gives the recipe to compare the image in the registry with; nil when there can be none.
func (s *survey) comparable(ctx context.Context, b *batch.Batch, im batch.Image, lockErr error) *recipe.Recipe {
	if b.Lock != nil && lockErr != nil {
		if _, ok := b.Lock.Find(im.Tag(), im.Target.Arch); ok {
			return nil
		}
	}
	r, err := s.recipe(ctx, im)
	if err != nil { // the pins cannot be found, or the programs are not beside driver-build
		return nil
	}
	return r
}

func failed(err error) *Verdict {
	return &Verdict{VerdictFailed, oneLine(err.Error()), batch.CauseOf(err, "")}
}

// base asks for the manifest of a base.
func (s *survey) base(ctx context.Context, ref, arch string) *Verdict {
	digest, err := s.bases.Get(ctx, ref+" "+arch, func() (string, error) {
		h, err := s.online.Registry.Resolve(ctx, ref, arch)
		return h.String(), err
	})
	if err != nil {
		return failed(err)
	}
	return &Verdict{State: VerdictOK, Detail: digest}
}

// archive asks for the size of the driver's .run archive. A driver that comes as packages has none.
func (s *survey) archive(ctx context.Context, im batch.Image) *Verdict {
	asked, err := recipe.Ask(im.Target, im.Plan)
	if err != nil {
		return failed(err)
	}
	for _, v := range []*Verdict{s.patches(ctx, im), s.companions(ctx, im)} {
		if v.State != VerdictOK {
			return v
		}
	}
	if asked.Archive == nil {
		return &Verdict{State: VerdictNone}
	}
	return s.file(ctx, *asked.Archive)
}

// patches asks for the patches of the driver that are at an address.
func (s *survey) patches(ctx context.Context, im batch.Image) *Verdict {
	for _, p := range im.Target.Driver.Patches {
		if p.URL == "" {
			continue
		}
		if v := s.file(ctx, fetch.File{URL: p.URL, SHA256: p.SHA256}); v.State == VerdictFailed {
			v.Detail = "patch " + p.Name + ": " + v.Detail
			return v
		}
	}
	return &Verdict{State: VerdictOK}
}

// companions asks for the archives of the companions that the image gets. Those in packages are in the lock.
func (s *survey) companions(ctx context.Context, im batch.Image) *Verdict {
	for _, c := range im.Target.Companions {
		if c.Archive == nil {
			continue
		}
		if v := s.file(ctx, fetch.File{URL: c.Archive.URL, SHA256: c.Archive.SHA256, Size: c.Archive.Size}); v.State == VerdictFailed {
			v.Detail = "companion " + c.Name + ": " + v.Detail
			return v
		}
	}
	return &Verdict{State: VerdictOK}
}

// components asks for the size of the archive of each component that the image gets.
func (s *survey) components(ctx context.Context, im batch.Image) *Verdict {
	list := im.Plan.Profile.Fabric(im.Target.Driver.Components.For(im.Target.Arch))
	if len(list) == 0 {
		return &Verdict{State: VerdictNone}
	}
	var names []string
	for _, c := range list {
		if v := s.file(ctx, c.File); v.State != VerdictOK {
			v.Detail = c.Name + ": " + v.Detail
			return v
		}
		names = append(names, c.Name+" "+c.Version)
	}
	return &Verdict{State: VerdictOK, Detail: strings.Join(names, ", ")}
}

// file asks whether a file is there with the size that it should have.
func (s *survey) file(ctx context.Context, f fetch.File) *Verdict {
	size, err := s.size(ctx, f.URL)
	switch {
	case errors.Is(err, fetch.ErrOffline):
		return &Verdict{State: VerdictUnknown, Detail: "--offline"}
	case err != nil:
		return failed(err)
	case size == 0:
		return &Verdict{State: VerdictUnknown, Detail: "the server does not say how large " + f.URL + " is"}
	case f.Size > 0 && f.Size != size:
		return &Verdict{State: VerdictFailed, Detail: fmt.Sprintf("%s has %d bytes, and should have %d", f.URL, size, f.Size)}
	}
	return &Verdict{State: VerdictOK, Detail: fmt.Sprintf("%d bytes", size)}
}

func (s *survey) size(ctx context.Context, address string) (int64, error) {
	return s.sizes.Get(ctx, address, func() (int64, error) { return s.online.Fetch.Stat(ctx, address) })
}

// headers plans an image with compiler and headers for the newest kernel that the driver compiles on. Where
// there is no such kernel, it plans the image without. Images that offer kernels take the place of the
// repositories, and bring the compiler.
func (s *survey) headers(ctx context.Context, k *batch.Kernels, row *Checked, im batch.Image) *Verdict {
	im.Plan.KernelFrom = k.From
	offered, err := s.plans.Offered(ctx, im.Target, im.Plan)
	if err != nil {
		return failed(err)
	}
	var suiting []string
	for _, k := range offered {
		if recipe.CheckFlavours(im.Target.Driver, k, recipe.CompiledFlavours(im.Target, nil)) == nil {
			suiting = append(suiting, k.Release)
		}
	}
	row.Kernels = len(suiting)
	detail := "the " + k.Offering() + " offer no kernel headers"
	if len(offered) > 0 {
		detail = fmt.Sprintf("the driver compiles on none of the %d kernels that the %s offer", len(offered), k.Offering())
	}
	if row.Kernels > 0 {
		latest := batch.Kernels{Specs: []string{"latest"}}
		releases, err := latest.Releases(im.Target, matrix.Selection{}, func(matrix.Target) ([]distros.Kernel, error) { return offered, nil })
		if len(k.From) > 0 && len(suiting) == 1 { // needs no --kernel, whatever its flavour
			releases, err = suiting, nil
		}
		if err != nil { // kernels of other flavours only
			detail = oneLine(err.Error())
		} else {
			row.Kernel = releases[0]
			im.Plan.Kernels, im.Plan.Toolchain = releases[:1], len(k.From) == 0
			detail = row.Kernel
		}
	}
	if _, err := s.find(ctx, im); err != nil {
		return failed(err)
	}
	if row.Kernel == "" {
		return &Verdict{State: VerdictNone, Detail: detail}
	}
	return &Verdict{State: VerdictOK, Detail: detail}
}
