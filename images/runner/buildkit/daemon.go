package buildkit

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/moby/buildkit/client"

	"github.com/driver-container/driver-container/images/runner"
	"github.com/driver-container/driver-container/images/runner/buildkit/dialstdio"
)

const (
	socketTime  = 10 * time.Second // for a daemon to answer that it is alive
	programTime = 30 * time.Second // the same if a program has to start on another machine first
	// The first version that takes the root of a step from its client, and that reports its version at all.
	oldest = "v0.11"
	// Time for a daemon to end a cancelled step before Run returns without its confirmation.
	patience = 1500 * time.Millisecond
)

// parallelismLabel is a label that the operator of a daemon can give its worker (buildkitd
// --oci-worker-labels NAME=8): how many steps it can run in parallel, compared with the others of a pool.
// BuildKit itself has no such setting.
const parallelismLabel = "driver-container.parallelism"

// daemon is one buildkitd. remote implements it for a real one.
type daemon interface {
	// worker asks the daemon whether it is alive and what it can run.
	worker(ctx context.Context) (worker, error)
	// solve runs one step. Errors: *runner.FailedError; *daemonError when the daemon and not the step is the
	// cause; ctx's cause; others are errors of this process.
	solve(ctx context.Context, j job) error
	close() error
}

// worker describes a daemon, as the daemon itself reports.
type worker struct {
	native      string   // Go's name of the architecture of its machine
	platforms   []string // "linux/amd64": what it can run, natively or emulated
	parallelism int      // at least 1
}

// job is one attempt at a step.
type job struct {
	step   runner.Step
	root   *root
	spool  *spool
	dir    string
	output func(string) // never nil, may be called by any goroutine until solve returns
}

// remote is a daemon that BuildKit's own client connects to.
type remote struct {
	address string
	program *dialstdio.Dialer // nil: a socket
	client  *client.Client
	notify  func(string)   // gets messages for people that the command does not print
	solving sync.WaitGroup // solves that may run a moment longer than their step
}

// close closes the connection, which ends every call.
func (r *remote) close() error {
	err := r.client.Close()
	r.solving.Wait()
	if err != nil {
		return fmt.Errorf("end the connection to buildkitd at %s: %w", r.address, err)
	}
	return nil
}

// answerTime is the time for the daemon to answer that it is alive.
func (r *remote) answerTime() time.Duration {
	if r.program != nil {
		return programTime
	}
	return socketTime
}

// reason returns how the program ended that is the connection, because gRPC's own error about it is long and
// has no type, and err if none has ended.
func (r *remote) reason(err error) error {
	if r.program != nil {
		if ended := r.program.Ended(); ended != nil {
			return ended
		}
	}
	return err
}

// advice returns what to do about a daemon that does not answer.
func (r *remote) advice(err error) string {
	switch {
	case r.program == nil:
		return advice(err)
	case r.program.Ended() != nil:
		return "" // the error says it
	default:
		return ": " + r.program.Advice()
	}
}

func (r *remote) worker(ctx context.Context) (worker, error) {
	limit := r.answerTime()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v", limit))
	defer cancel()
	all, err := r.client.ListWorkers(ctx)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = fmt.Errorf("%w (%w)", cause, err)
		}
		return worker{}, fmt.Errorf("buildkitd at %s does not answer: %w%s", r.address, r.reason(err), r.advice(err))
	}
	if len(all) == 0 {
		return worker{}, fmt.Errorf("buildkitd at %s has no worker: start it with --oci-worker=true and look into its log", r.address)
	}
	first := all[0] // the only one that a daemon uses: it says so when it starts
	if first.BuildkitVersion.Version == "" {
		return worker{}, fmt.Errorf("buildkitd at %s is too old: give the address of one of %s or newer; make buildkitd starts the version that this project is tested with", r.address, oldest)
	}
	w := worker{parallelism: 1}
	for i, p := range first.Platforms {
		if i == 0 {
			w.native = p.Architecture
		}
		w.platforms = append(w.platforms, p.OS+"/"+p.Architecture)
	}
	if n, err := strconv.Atoi(first.Labels[parallelismLabel]); err == nil && n > 0 {
		w.parallelism = n
	}
	return w, nil
}
