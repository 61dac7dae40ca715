package rehearse

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/rehearse/gpu"
	"github.com/driver-container/driver-container/images/rehearse/guest"
	"github.com/driver-container/driver-container/images/rehearse/kernel"
	"github.com/driver-container/driver-container/images/verify"
)

// Request says what is rehearsed.
type Request struct {
	Image    string // a reference, as registry.Client.Open takes it
	Previous string // the image that Image takes the place of; "": none
	// System is the system of the node; "": that of the image.
	System string
	// Kernel is the release of the node's kernel; "": the newest that the images have modules for,
	// or that the system has.
	Kernel     string
	Matrix     *matrix.Matrix // it has the systems
	Options    recipe.Options // where the kernel's packages come from: Base and Mirror
	Pod        *Pod           // nil: ChartPod, or as the GPU Operator starts images of others
	SecureBoot bool
	// Certificates are in the firmware's database with SecureBoot, and modules have to be signed by
	// one of them.
	Certificates []*x509.Certificate
	// Program returns the file of driver-guest for linux/amd64. It is called when a guest is needed.
	Program func(context.Context) (string, error)
	Keep    string // folder that gets console, kernel log and status; "": nothing is kept
}

// image is an opened image of a request.
type image struct {
	*registry.Opened
	ref     string
	summary *verify.Inspection
}

// ours says whether driver-build made the image.
func (i *image) ours() bool { return i.summary.Driver != "" }

// Run verifies the images and rehearses the life of the driver. An error is about the rehearsal: a
// kernel that there is not, a guest that does not boot. What was rehearsed before is in the report.
func (q Request) Run(ctx context.Context, b *images.Builder) (*Report, error) {
	report := &Report{
		Schema:     ReportSchema,
		Image:      q.Image,
		Previous:   q.Previous,
		SecureBoot: q.SecureBoot,
		Rows:       []Row{},
	}
	all, err := q.open(ctx, b)
	if err != nil {
		return report, err
	}
	report.Digest = all[0].Digest.String()
	report.Driver = all[0].summary.Driver
	err = q.verify(ctx, b, all, report)
	if err != nil || report.Err() != nil {
		return report, err
	}
	booted, packages, err := q.kernel(ctx, b, all)
	if err != nil {
		return report, err
	}
	report.System = booted.System
	report.Kernel = booted.Release
	for _, p := range packages {
		report.Packages = append(report.Packages, Package{p.Name, p.Version, p.Digest()})
	}
	err = q.inGuest(ctx, b, all, booted, report)
	report.Passed = err == nil && report.Err() == nil
	return report, err
}

// open opens the images, of which the first is the one that is rehearsed.
func (q Request) open(ctx context.Context, b *images.Builder) (all []*image, err error) {
	for _, ref := range []string{q.Image, q.Previous} {
		if ref == "" {
			continue
		}
		opened, err := b.Registry.Open(ctx, ref, registry.OpenOptions{Arch: "amd64", Part: registry.Layers})
		if err != nil {
			return nil, err
		}
		summary, err := verify.Summarize(opened.Image)
		if err != nil {
			return nil, err
		}
		if summary.Profile == string(recipe.ModulesOnly) {
			return nil, failure.Errorf(failure.Usage, "%s has modules alone: rehearse the image of the driver that they are for", ref)
		}
		all = append(all, &image{opened, ref, summary})
	}
	return all, nil
}

// verify adds the row about the images themselves. What the rules for our images find in those of
// others is no fault.
func (q Request) verify(ctx context.Context, b *images.Builder, all []*image, report *Report) error {
	examiner := verify.Examiner{Store: b.Store, Observe: b.Observe}
	row := Row{Name: "verify", Verdict: OK, Message: "no fault found"}
	begin := time.Now()
	for _, i := range all {
		findings, err := examiner.Verify(ctx, i.ref, i.Image, verify.Options{Signers: q.Certificates})
		if err != nil {
			return err
		}
		unfit := verify.Unfit(findings)
		if unfit == nil {
			continue
		}
		row.Message = i.ref + ": " + unfit.Error()
		if !i.ours() {
			row.Verdict = Skipped
			row.Message += "; driver-build did not make it, so it is rehearsed all the same"
			continue
		}
		row.Verdict = Failed
		for _, f := range findings {
			if f.Severity == verify.Error {
				row.Log = append(row.Log, f.String())
			}
		}
		row.Log = logLines(last(row.Log))
		break
	}
	row.Seconds = seconds(time.Since(begin))
	report.Rows = append(report.Rows, row)
	return nil
}

// kernel gets the kernel for the images.
func (q Request) kernel(ctx context.Context, b *images.Builder, all []*image) (*guest.Kernel, []distros.Package, error) {
	id := cmp.Or(q.System, all[0].summary.System)
	if id == "" {
		return nil, nil, failure.Errorf(failure.Usage, "%s does not say for which system it is: give --os", q.Image)
	}
	release, err := chooseRelease(q.Kernel, all)
	if err != nil {
		return nil, nil, err
	}
	target, err := q.target(id)
	if err != nil {
		return nil, nil, err
	}
	programs, err := kernel.Programs(q.Matrix, target)
	if err != nil {
		return nil, nil, err
	}
	query := kernel.Query{
		System:   kernel.Source{Target: target, Options: q.Options},
		Programs: kernel.Source{Target: programs},
		Release:  release,
		Headers:  compiles(release, all),
	}
	if programs.System.ID == id {
		query.Programs.Options = q.Options
	}
	return kernel.Get(ctx, b, query)
}

// Check finds mistakes before anything is read.
func (q Request) Check() error {
	if q.System == "" {
		return nil
	}
	_, err := q.target(q.System)
	return err
}

// target is a system of the matrix.
func (q Request) target(id string) (matrix.Target, error) {
	i := slices.IndexFunc(q.Matrix.Systems, func(s matrix.System) bool { return s.ID == id })
	if i < 0 {
		return matrix.Target{}, failure.Errorf(failure.Usage,
			"the matrix has no system %q, whose kernel the node has: give --os, or --matrix", id)
	}
	d, err := distros.Lookup(id)
	return matrix.Target{System: q.Matrix.Systems[i], Distro: d, Arch: "amd64"}, failure.Of(failure.Usage, err)
}

// compiles says whether an image has no modules for a kernel, so that it needs headers.
func compiles(release string, all []*image) bool {
	return slices.ContainsFunc(all, func(i *image) bool {
		return i.ours() && !slices.Contains(i.summary.Kernels, release)
	})
}

// chooseRelease returns the release that was asked for, or the newest that all images with modules
// have in common; "": none of them has modules.
func chooseRelease(asked string, all []*image) (string, error) {
	if asked != "" {
		return asked, nil
	}
	var common []string
	var lists []string
	for _, i := range all {
		kernels := i.summary.Kernels
		if len(kernels) == 0 {
			continue
		}
		lists = append(lists, i.ref+" for "+strings.Join(kernels, ", "))
		if len(lists) == 1 {
			common = slices.Clone(kernels)
			continue
		}
		common = slices.DeleteFunc(common, func(k string) bool { return !slices.Contains(kernels, k) })
	}
	switch {
	case len(lists) == 0:
		return "", nil
	case len(common) == 0:
		return "", failure.Errorf(failure.Usage,
			"the images have modules for no kernel in common (%s): give --kernel", strings.Join(lists, "; "))
	}
	return slices.MaxFunc(common, distros.CompareReleases), nil
}

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
	program, err := q.Program(ctx)
	if err != nil {
		return err
	}
	step := b.Observe.Begin("rehearse", "boot "+booted.Release)
	config := guest.Config{
		Kernel:   booted,
		GPUs:     []gpu.Model{gpu.T4},
		MemoryMB: memory,
		Images:   map[string]guest.Image{},
		Program:  program,
		Dir:      dir,
		Notify: func(text string) {
			text = message(text)
			step.Note(text)
			report.Notes = append(report.Notes, text)
		},
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
	r := rehearsal{observe: b.Observe}
	for i, img := range all {
		s := subject{name: []string{"image", "previous"}[i], pod: q.pod(img), ours: img.ours()}
		config.Images[s.name], err = guest.ImageDisk(ctx, img.Image, dir)
		if err != nil {
			return step.End(false, err)
		}
		if i == 0 {
			r.image = s
		} else {
			r.previous = &s
		}
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
	err = errors.Join(failure.Of(failure.Some, err), q.keep(ctx, r, g))
	closed := g.Close(context.WithoutCancel(ctx))
	if err != nil { // after which a guest may not end as it should
		return err
	}
	return closed
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
