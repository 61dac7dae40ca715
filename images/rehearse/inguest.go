package rehearse

import (
	"context"
	"errors"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/rehearse/gpu"
	"github.com/driver-container/driver-container/images/rehearse/guest"
)

// Memory of a guest, in MiB: a compile needs more.
const (
	memory        = 2048
	compileMemory = 4096
)

// inGuest boots the guest and rehearses in it.
func (q Request) inGuest(
	ctx context.Context, b *images.Builder, all []*image, config guest.Config, report *Report,
) (err error) {
	dir, remove, err := layer.WorkFolder(b.Store)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	step := b.Observe.Begin("rehearse", "boot "+config.Kernel.Release)
	r := &rehearsal{observe: b.Observe}
	config.Dir = dir
	err = q.configure(ctx, b.Store, all, &config, r)
	if err != nil {
		return step.End(false, err)
	}
	config.Notify = func(text string) {
		text = message(text)
		step.Note(text)
		report.Notes = append(report.Notes, text)
	}
	for _, left := range r.image.pod.Left {
		report.Notes = append(report.Notes, "not rehearsed: "+left)
	}
	g, err := guest.Start(ctx, config)
	if err != nil {
		return step.End(false, errors.Join(err, q.keepConsole(err)))
	}
	_ = step.End(false, nil)
	report.Emulated = g.Accel != guest.KVM
	r.emulated = report.Emulated
	r.node = machine{g}
	r.console = g.Console
	rows, err := r.run(ctx)
	report.Rows = append(report.Rows, rows...)
	err = errors.Join(err, q.keep(ctx, *r, g))
	closed := g.Close(context.WithoutCancel(ctx))
	if err != nil { // after which a guest may not end as it should
		return err
	}
	return closed
}

// configure describes the guest, makes the disks of its images, and names them in the rehearsal.
func (q Request) configure(
	ctx context.Context, store *fetch.Store, all []*image, config *guest.Config, r *rehearsal,
) (err error) {
	config.GPUs = []gpu.Model{gpu.T4}
	config.MemoryMB = memory
	config.Images = map[string]guest.Image{}
	if compiles(config.Kernel.Release, all) {
		config.MemoryMB = compileMemory
	}
	if q.SecureBoot {
		config.Firmware = &guest.Firmware{}
		for _, c := range q.Certificates {
			config.Firmware.Certificates = append(config.Firmware.Certificates, c.Raw)
		}
	}
	for i, img := range all {
		s := subject{name: []string{"image", "previous"}[i], pod: q.pod(img), ours: img.ours()}
		config.Images[s.name], err = imageDisk(ctx, store, img.Image, config.Dir)
		if err != nil {
			return err
		}
		if i == 0 {
			r.image = s
		} else {
			r.previous = &s
		}
	}
	return nil
}

// pod is how the image runs.
func (q Request) pod(i *image) Pod {
	switch {
	case q.Pod != nil:
		return *q.Pod
	case !i.ours():
		return operatorPod()
	}
	return ChartPod()
}
