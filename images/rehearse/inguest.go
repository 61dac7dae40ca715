package rehearse

import (
	"context"
	"errors"

	"github.com/driver-container/driver-container/distros/failure"
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
	ctx context.Context, b *images.Builder, all []*image, booted *guest.Kernel, report *Report,
) (err error) {
	dir, remove, err := layer.WorkFolder(b.Store)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	step := b.Observe.Begin("rehearse", "boot "+booted.Release)
	r := &rehearsal{observe: b.Observe}
	config, err := q.configure(ctx, all, booted, dir, r)
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
		return step.End(false, failure.Of(failure.Some, err))
	}
	_ = step.End(false, nil)
	report.Emulated = g.Accel != guest.KVM
	r.node = machine{g}
	r.console = g.Console
	rows, err := r.run(ctx)
	report.Rows = append(report.Rows, rows...)
	err = errors.Join(failure.Of(failure.Some, err), q.keep(ctx, *r, g))
	closed := g.Close(context.WithoutCancel(ctx))
	if err != nil { // after which a guest may not end as it should
		return err
	}
	return closed
}

// configure makes the disks of the images in a folder, names the images in the rehearsal, and
// returns the guest that has them.
func (q Request) configure(
	ctx context.Context, all []*image, booted *guest.Kernel, dir string, r *rehearsal,
) (config guest.Config, err error) {
	config = guest.Config{
		Kernel:   booted,
		GPUs:     []gpu.Model{gpu.T4},
		MemoryMB: memory,
		Images:   map[string]guest.Image{},
		Dir:      dir,
	}
	config.Program, err = q.Program(ctx)
	if err != nil {
		return config, err
	}
	if compiles(booted.Release, all) {
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
		config.Images[s.name], err = guest.ImageDisk(ctx, img.Image, dir)
		if err != nil {
			return config, err
		}
		if i == 0 {
			r.image = s
		} else {
			r.previous = &s
		}
	}
	return config, nil
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
