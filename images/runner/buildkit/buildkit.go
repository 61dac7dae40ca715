// Package buildkit runs steps in a BuildKit daemon. It is the runner for users who have builders
// elsewhere.
//
// The root of a step goes in as an image manifest that this package makes; the daemon fetches from
// this process only the layers that it lacks. The command is one LLB Run without a network.
// BuildKit's client writes the content of the output folder below the folder of the result, from
// where runner.Collect takes what a result may have. The cache is BuildKit's: the same layers,
// command and environment give the same digests.
//
// When the daemon is lost during a step, the step runs once more, since the address may stand for
// several. This package does not queue, balance or start a daemon, does not talk to a registry, and
// keeps nothing on this machine after Close.
package buildkit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/moby/buildkit/client"
	"github.com/moby/buildkit/util/appdefaults"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/driver-container/driver-container/images/runner"
)

const (
	socketTime  = 10 * time.Second // for a daemon to answer that it is alive
	programTime = 30 * time.Second // the same if a program has to start on another machine first
	// The first version that takes the root of a step from its client, and that reports its version
	// at all.
	oldest = "v0.11"
)

// Options say where the daemon is. Addresses have the forms that buildctl accepts.
type Options struct {
	Address string // "": BUILDKIT_HOST, or the default address of a buildkitd on this machine
	TLS     TLS    // for tcp:// addresses; DefaultTLS returns the one of the environment
	// Work is the folder for temporary copies of layers that are not files of this machine; "": the
	// system's.
	Work string
	// OnLine gets messages that are not output of a command, such as layers in transfer, from any
	// goroutine. It may be nil.
	OnLine func(line string)
}

// Daemon is a runner.Runner over one address. It is safe for concurrent use.
type Daemon struct {
	Options

	program   *program // nil: a socket
	client    *client.Client
	platforms []string       // "linux/amd64": what it can run
	solving   sync.WaitGroup // solves that may run a moment longer than their step
}

var _ runner.Runner = (*Daemon)(nil)

// New connects to the daemon and asks what it can run. It returns an error when the address is
// invalid or a certificate cannot be read, and runner.ErrUnavailable when its program is missing or
// nothing answers.
func New(ctx context.Context, o Options) (*Daemon, error) {
	if o.Address == "" {
		o.Address = appdefaults.Address
		if a := os.Getenv("BUILDKIT_HOST"); a != "" {
			o.Address = a
		}
	}
	d, err := dial(ctx, o)
	if err != nil {
		return nil, err
	}
	d.platforms, err = d.ask(ctx)
	if err != nil {
		return nil, errors.Join(unavailable("connect to BuildKit", err), d.Close())
	}
	return d, nil
}

// dial prepares a connection, which is made in the background.
func dial(ctx context.Context, o Options) (*Daemon, error) {
	u, p, err := parse(o.Address)
	if err != nil {
		return nil, err
	}
	d := &Daemon{Options: o, program: p}
	// gRPC's default is up to two minutes until it connects to a restarted daemon.
	again := backoff.DefaultConfig
	again.BaseDelay = 200 * time.Millisecond
	again.MaxDelay = 5 * time.Second
	opts := []client.ClientOpt{
		client.WithGRPCDialOption(
			grpc.WithConnectParams(
				grpc.ConnectParams{Backoff: again, MinConnectTimeout: d.answerTime()},
			),
		),
	}
	switch {
	case p != nil:
		if err := p.find(); err != nil {
			return nil, unavailable("connect to BuildKit", err)
		}
		opts = append(opts, client.WithContextDialer(p.dial))
	case u.Scheme == "tcp":
		secure, err := o.TLS.options(u.Hostname())
		if err != nil {
			return nil, fmt.Errorf("connect to buildkitd at %s: %w", o.Address, err)
		}
		opts = append(opts, secure...)
	}
	d.client, err = client.New(ctx, o.Address, opts...)
	if err != nil {
		return nil, fmt.Errorf("connect to buildkitd at %s: %w", o.Address, err)
	}
	return d, nil
}

// Close closes the connection, when no step runs any more.
func (d *Daemon) Close() error {
	defer d.solving.Wait()
	if err := d.client.Close(); err != nil {
		return fmt.Errorf("end the connection to buildkitd at %s: %w", d.Address, err)
	}
	return nil
}

// String returns the name of the runner and its address.
func (d *Daemon) String() string { return "buildkit " + d.Address }

// Run implements runner.Runner. A step whose daemon is lost runs once more; a command that failed
// does not.
func (d *Daemon) Run(
	ctx context.Context,
	s runner.Step,
	dir string,
	output func(line string),
) error {
	if want := "linux/" + s.Arch; !slices.Contains(d.platforms, want) {
		return unavailable("step "+s.Name, fmt.Errorf("buildkitd at %s runs %s only: "+
			"give the address of one on a machine of %s, or let this one emulate it (binfmt_misc)",
			d.Address, strings.Join(slices.Compact(slices.Clone(d.platforms)), ", "), want))
	}
	root, err := newRoot(s.Arch, s.Layers)
	if err != nil {
		return fmt.Errorf("step %s: %w", s.Name, err)
	}
	lines := runner.NewLines(output)
	defer lines.End()
	err = d.attempt(ctx, s, root, dir, lines)
	if err == nil || context.Cause(ctx) != nil {
		return err
	}
	switch {
	case strings.Contains(err.Error(), "unsupported offset"):
		if gone := d.pruneParts(ctx); gone != nil {
			return errors.Join(err, gone)
		}
	case errors.Is(err, errLost):
		lines.Add(0, []byte(err.Error()+"\n"))
		if _, gone := d.ask(ctx); gone != nil {
			return errors.Join(err, gone)
		}
	default:
		return err
	}
	return d.attempt(ctx, s, root, dir, lines)
}

// pruneParts lets a daemon remove unreferenced data: a part of a layer from an earlier, cancelled
// step, from where it cannot continue, since its fetcher does not show that our side could
// (contentutil.FromFetcher in v0.33.1; a test here shows it). The filter matches no cache record,
// so none is removed.
func (d *Daemon) pruneParts(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := d.client.Prune(ctx, nil, client.WithFilter([]string{"id==none"})); err != nil {
		return fmt.Errorf(
			"let buildkitd at %s remove a layer that it has a part of: %w",
			d.Address,
			err,
		)
	}
	return nil
}

// answerTime is the time for the daemon to answer that it is alive.
func (d *Daemon) answerTime() time.Duration {
	if d.program != nil {
		return programTime
	}
	return socketTime
}

// ask returns the platforms of a daemon that is alive.
func (d *Daemon) ask(ctx context.Context) (platforms []string, err error) {
	limit := d.answerTime()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v", limit))
	defer cancel()
	all, err := d.client.ListWorkers(ctx)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = fmt.Errorf("%w (%w)", cause, err)
		}
		return nil, fmt.Errorf(
			"buildkitd at %s does not answer: %w%s",
			d.Address,
			d.program.reason(err),
			d.advice(err),
		)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf(
			"buildkitd at %s has no worker: start it with --oci-worker=true and look into its log",
			d.Address,
		)
	}
	first := all[0] // the only one that a daemon uses: it says so when it starts
	if first.BuildkitVersion.Version == "" {
		return nil, fmt.Errorf(
			"buildkitd at %s is too old: give the address of one of %s or newer; make buildkitd starts the version that this project is tested with",
			d.Address,
			oldest,
		)
	}
	for _, p := range first.Platforms {
		platforms = append(platforms, p.OS+"/"+p.Architecture)
	}
	return platforms, nil
}

// unavailable returns the error of a runner that cannot run anything, with the reason.
func unavailable(what string, reason error) error {
	return fmt.Errorf("%s: %w: %w", what, runner.ErrUnavailable, reason)
}
