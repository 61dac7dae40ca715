package rehearse

import (
	"context"
	"crypto/x509"
	"time"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
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
	// Program returns the file of driver-guest for linux/amd64. It is called when the images are fit.
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
func (q Request) Run(ctx context.Context, b *images.Builder) (report *Report, err error) {
	defer func() {
		if failure.KindOf(err) == failure.Unexpected { // this machine's fault, not the image's
			err = failure.Of(failure.Some, err)
		}
	}()
	report = &Report{
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
	query, err := q.kernelQuery(all)
	if err != nil {
		return report, err
	}
	err = guest.CheckTools(ctx)
	if err != nil {
		return report, err
	}
	var config guest.Config
	config.Program, err = q.Program(ctx)
	if err != nil {
		return report, err
	}
	var packages []distros.Package
	config.Kernel, packages, err = kernel.Get(ctx, b, query)
	if err != nil {
		return report, err
	}
	report.System = config.Kernel.System
	report.Kernel = config.Kernel.Release
	for _, p := range packages {
		report.Packages = append(report.Packages, Package{p.Name, p.Version, p.Digest()})
	}
	err = q.inGuest(ctx, b, all, config, report)
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

// Check finds mistakes before anything is read, and makes the folder of Keep.
func (q Request) Check() error {
	err := q.makeKeep()
	if err != nil || q.System == "" {
		return err
	}
	_, err = q.target(q.System)
	return err
}
