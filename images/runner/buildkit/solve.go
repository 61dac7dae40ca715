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
	"github.com/opencontainers/go-digest"

	"github.com/driver-container/driver-container/images/runner"
)

// storeID is the name of our content store in a session. BuildKit's cache key contains it as part
// of the source's digest, so it must never change.
const storeID = "driver-root"

// Time for a daemon to end a cancelled step before Run returns without its confirmation: it sees
// the cancelled call, or the closed connection.
const patience = 1500 * time.Millisecond

// definition returns a step as LLB, whose result is the content of the output folder.
func definition(ctx context.Context, s runner.Step, r *root) (*llb.Definition, error) {
	base := llb.OCILayout(
		"driver/root@"+r.manifest.String(),
		llb.OCIStore("", storeID),
		llb.WithCustomName("root of "+s.Name),
	)
	opts := []llb.RunOption{
		llb.Args(s.Args),
		llb.Dir("/"),
		llb.Network(llb.NetModeNone),
		llb.Security(llb.SecurityModeSandbox),
		llb.WithCustomName(s.Name),
	}
	for _, v := range s.Env {
		k, value, _ := strings.Cut(v, "=")
		opts = append(opts, llb.AddEnv(k, value))
	}
	def, err := base.Run(opts...).
		AddMount(s.Output, llb.Scratch()).
		Marshal(ctx, llb.Platform(r.platform))
	if err != nil {
		return nil, fmt.Errorf("describe the step to BuildKit: %w", err)
	}
	return def, nil
}

// attempt runs one step. Errors: *runner.FailedError; runner.ErrUnavailable when the daemon and not
// the step is the cause; ctx's cause; others are errors of this process.
func (d *Daemon) attempt(ctx context.Context, s runner.Step, root *root, dir string, lines *runner.Lines) (err error) {
	def, err := definition(ctx, s, root)
	if err != nil {
		return err
	}
	received, err := os.MkdirTemp(dir, ".received-")
	if err != nil {
		return fmt.Errorf("make a folder for the result: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(received)) }()
	blobs := &store{root: root, work: d.Work, notify: func(line string) {
		if d.OnLine != nil {
			d.OnLine(d.Address + ": " + s.Name + ": " + line)
		}
	}}
	// The goroutine drains the channel until Solve closes it, also after ctx has ended: a Solve
	// that cannot write to it never returns.
	status := make(chan *client.SolveStatus)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		printed(status, s.Name, lines)
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
	select {
	case err = <-ended:
	case <-ctx.Done():
		select {
		case <-ended:
		case <-time.After(patience):
		}
	}
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("step %s: %w", s.Name, cause)
	}
	failure := blobs.failure()
	if err != nil && failure == nil {
		return d.explain(ctx, s, lines, err)
	}
	if err != nil {
		err = failure
	} else {
		err = collect(ctx, received, dir)
	}
	if err != nil {
		return fmt.Errorf("step %s on buildkitd at %s: %w", s.Name, d.Address, err)
	}
	return nil
}

// printed passes on what the command of a step printed, by the name of its vertex, and whether it
// was cached.
func printed(status <-chan *client.SolveStatus, name string, lines *runner.Lines) {
	var command digest.Digest
	cached := false
	for s := range status {
		for _, v := range s.Vertexes {
			if v.Name != name {
				continue
			}
			command = v.Digest
			if v.Cached && !cached {
				cached = true
				lines.Add(0, []byte("cached\n"))
			}
		}
		for _, l := range s.Logs {
			if l.Vertex == command {
				lines.Add(l.Stream, l.Data)
			}
		}
	}
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
