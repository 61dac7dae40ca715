package status

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
)

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
