package modules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/kmod/kbuild/buildtree"
)

// Request says what is compiled of the driver of an image.
type Request struct {
	Image   string // root with the sources; "": "/"
	Info    driverinfo.Description
	Flavour string
	// names without ".ko"; the optional ones only if the sources have them
	Modules, Optional []string
	Companions        []string // names; see Companions
	RDMA              []string // name of the node's RDMA driver (OFED), or none
	MaxThreads        int      // 0: from the limits of the container
	Path              string   // search path of compilers; "": PATH
	Work, Log         string   // see kbuild.Job; Work is created
}

// Job is a compile that can begin.
type Job struct {
	kbuild.Job
	limit string // why it has so many jobs
}

// Job returns the compile of a request for a kernel (kbuild.KernelID) with its headers. Errors:
// *kbuild.NoCompilerError, those of files.
func (r Request) Job(
	ctx context.Context,
	kernel string,
	h buildtree.Headers,
	log *slog.Logger,
) (Job, error) {
	cc, err := kbuild.FindCompiler(ctx, h, cmp.Or(r.Path, os.Getenv("PATH")))
	if err != nil {
		return Job{}, err
	}
	if cc.Mismatch {
		log.Warn(
			"the kernel was built with another compiler, this is the nearest there is",
			"wanted",
			cc.Wanted,
			"compiler",
			cc.Version,
			"path",
			cc.Path,
		)
	}
	if err := os.MkdirAll(r.Work, 0o700); err != nil {
		return Job{}, fmt.Errorf("make the scratch folder: %w", err)
	}
	image := cmp.Or(r.Image, "/")
	companions := Companions(r.Info, r.Flavour, r.Companions)
	for i := range companions {
		companions[i].Source = filepath.Join(image, companions[i].Source)
	}
	jobs, limit := kbuild.Jobs(r.MaxThreads, kbuild.Limits{})
	return Job{limit: limit, Job: kbuild.Job{
		Source: filepath.Join(
			image,
			Sources(r.Info.Driver, r.Flavour),
		), Driver: r.Info.Driver, Flavour: r.Flavour,
		Patches: append(
			r.Info.PatchNames(r.Flavour),
			r.RDMA...), Variables: driverinfo.MakeVariables(r.Info.VGPU),
		Kernel: kernel, Headers: h, Compiler: cc, Jobs: jobs, Modules: slices.Concat(r.Modules, r.Optional), Optional: r.Optional,
		Companions: companions, Work: r.Work, Log: r.Log, Progress: Progress(log),
	}}, nil
}

// Compile compiles, and logs what it does and the last lines of a compile that failed.
func (j Job) Compile(ctx context.Context, log *slog.Logger) (*kbuild.Set, error) {
	log.Info(
		"compiling",
		"driver",
		j.Driver,
		"flavour",
		j.Flavour,
		"kernel",
		j.Headers.Release,
		"compiler",
		j.Compiler.Version,
		"jobs",
		j.Jobs,
		"limit",
		j.limit,
		"path",
		j.Log,
		"modules",
		j.Modules,
	)
	set, err := kbuild.Compile(ctx, j.Job)
	LogOutput(log, err)
	return set, err
}

// Sources returns the folder in an image with the sources of a driver's modules of a flavour.
func Sources(driver, flavour string) string {
	dir := "kernel"
	if flavour == driverinfo.Open {
		dir = "kernel-open"
	}
	return filepath.Join("/usr/src", "nvidia-"+driver, dir)
}

// LogOutput logs the last lines that a failed compile printed.
func LogOutput(log *slog.Logger, err error) {
	if failed, ok := errors.AsType[*kbuild.CompileError](err); ok {
		log.Info(
			"last lines of the compile",
			"count",
			len(failed.Tail),
			"output",
			strings.Join(failed.Tail, "\n")+"\n",
		)
	}
}

// Progress returns a function that logs every ten seconds how far a compile is
// (kbuild.Job.Progress).
func Progress(log *slog.Logger) func(done, total int, what string) {
	const every = 10 * time.Second
	begin := time.Now()
	logged := begin
	return func(done, total int, what string) {
		if time.Since(logged) < every {
			return
		}
		logged = time.Now()
		log.Info(
			"compile progress",
			"done",
			done,
			"total",
			total,
			"duration",
			logged.Sub(begin).Round(time.Second),
			"step",
			what,
		)
	}
}
