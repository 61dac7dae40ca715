package buildkit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/moby/buildkit/client"
	"github.com/moby/buildkit/client/llb"
	"github.com/moby/buildkit/solver/pb"
	"github.com/opencontainers/go-digest"

	"github.com/driver-container/driver-container/images/runner"
)

// storeID is the name of our content store in a session. BuildKit's cache key contains it as part of the
// source's digest, so it must never change.
const storeID = "driver-root"

// Time for a daemon to end a cancelled step before Run returns without its confirmation.
const patience = 1500 * time.Millisecond

// definition returns a step as LLB, whose result is the content of the output folder, and exec, the digest of
// the vertex that runs the command. A memory limit does not change the digests, so a cached result serves any
// limit.
func definition(ctx context.Context, s runner.Step, r *root, limit bool) (def *llb.Definition, exec digest.Digest, err error) {
	name := llb.WithCustomName(s.Name)
	base := llb.OCILayout("driver/root@"+r.manifest.String(), llb.OCIStore("", storeID), llb.WithCustomName("root of "+s.Name))
	opts := []llb.RunOption{llb.Args(s.Args), llb.Dir("/"), llb.Network(llb.NetModeNone), llb.Security(llb.SecurityModeSandbox), name}
	for _, v := range s.Env {
		k, value, _ := strings.Cut(v, "=")
		opts = append(opts, llb.AddEnv(k, value))
	}
	if limit && s.Memory > 0 { // of memory and swap together: a step gets no swap
		opts = append(opts, llb.MemoryLimit(s.Memory), llb.MemorySwapLimit(s.Memory))
	}
	out := base.Run(opts...).AddMount(s.Output, llb.Scratch())
	if def, err = out.Marshal(ctx, llb.Platform(r.platform)); err != nil {
		return nil, "", fmt.Errorf("describe the step to BuildKit: %w", err)
	}
	for _, b := range def.Def {
		var op pb.Op
		if err := op.UnmarshalVT(b); err != nil {
			return nil, "", fmt.Errorf("describe the step to BuildKit: %w", err)
		}
		if op.GetExec() != nil {
			exec = digest.FromBytes(b)
		}
	}
	return def, exec, nil
}

// solve runs one step. Errors: *runner.FailedError; *daemonError when the daemon and not the step is the
// cause; ctx's cause; others are errors of this process.
func (d *Daemon) solve(ctx context.Context, j job) error {
	limit := true
	err := d.attempt(ctx, j, limit)
	if err != nil && j.step.Memory > 0 && refusesLimits(err) && context.Cause(ctx) == nil {
		j.output(fmt.Sprintf("buildkitd at %s cannot limit the memory of a step (v0.33 is the first that can): it runs without the limit", d.address))
		limit = false
		err = d.attempt(ctx, j, limit)
	}
	if err != nil && halfReceived(err) && context.Cause(ctx) == nil {
		if err := d.forgetParts(ctx); err != nil {
			return err
		}
		err = d.attempt(ctx, j, limit)
	}
	return err
}

// halfReceived reports that a daemon has a part of a layer from an earlier, cancelled step and cannot
// continue from there: its fetcher does not show that our side could (contentutil.FromFetcher in v0.33.1; a
// test here shows it).
func halfReceived(err error) bool { return strings.Contains(err.Error(), "unsupported offset") }

// forgetParts lets a daemon remove unreferenced data, such as half a layer. The filter matches no cache record,
// so none is removed.
func (d *Daemon) forgetParts(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := d.client.Prune(ctx, nil, client.WithFilter([]string{"id==none"})); err != nil {
		return fmt.Errorf("let buildkitd at %s remove a layer that it has a part of: %w", d.address, err)
	}
	return nil
}

// refusesLimits reports that a daemon older than the limits of LLB refused them, which it does before it runs
// anything.
func refusesLimits(err error) bool {
	return strings.Contains(err.Error(), string(pb.CapExecMetaLinuxResources))
}

// job is one attempt at a step.
type job struct {
	step   runner.Step
	root   *root
	dir    string
	output func(string) // never nil, may be called by any goroutine until solve returns
}

func (d *Daemon) attempt(ctx context.Context, j job, limit bool) (err error) {
	def, exec, err := definition(ctx, j.step, j.root, limit)
	if err != nil {
		return err
	}
	received, err := os.MkdirTemp(j.dir, ".received-")
	if err != nil {
		return fmt.Errorf("make a folder for the result: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(received)) }()
	tell := func(line string) { d.notify.line(d.address + ": " + j.step.Name + ": " + line) }
	blobs := &store{root: j.root, work: d.work, notify: tell}
	out := &output{vertex: exec, lines: runner.NewLines(j.output), print: j.output}
	// The goroutine drains the channel until Solve closes it, also after ctx has ended: a Solve that cannot
	// write to it never returns.
	status := make(chan *client.SolveStatus)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		for s := range status {
			out.take(s)
		}
	}()
	ended := make(chan error, 1)
	d.solving.Go(func() {
		_, err := d.client.Solve(ctx, def, client.SolveOpt{
			OCIStores: map[string]content.Store{storeID: blobs},
			Exports:   []client.ExportEntry{{Type: client.ExporterLocal, OutputDir: received}},
		}, status)
		<-drained
		ended <- err
	})
	err = await(ctx, ended)
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("step %s: %w", j.step.Name, cause)
	}
	switch failure := blobs.failure(); {
	case err != nil && failure != nil:
		err = failure
	case err != nil:
		return d.explain(ctx, j.step, out, err)
	default:
		if err = collect(ctx, received, j.dir); err == nil {
			return nil
		}
	}
	return fmt.Errorf("step %s on buildkitd at %s: %w", j.step.Name, d.address, err)
}

// collect takes what a result may have from the folder that BuildKit's client wrote.
func collect(ctx context.Context, received, dir string) error {
	from, err := os.OpenRoot(received)
	if err != nil {
		return err
	}
	defer from.Close()
	return runner.Collect(ctx, from, dir)
}

// await waits for the end of a solve. A cancelled solve ends when the daemon has ended the command. If the
// daemon does not confirm that in time, await returns: the daemon sees the cancelled call, or the closed
// connection.
func await(ctx context.Context, ended <-chan error) error {
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	select {
	case err := <-ended:
		return err
	case <-late.Done():
		return context.Cause(ctx)
	}
}
