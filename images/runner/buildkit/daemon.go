package buildkit

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/moby/buildkit/client"

	"github.com/driver-container/driver-container/images/runner"
)

const (
	answerTime = 10 * time.Second        // for a daemon to say that it lives
	patience   = 1500 * time.Millisecond // for a daemon to end a step that is cancelled, before we go without its word
)

// parallelismLabel is a label that whoever runs a daemon may give its worker (buildkitd --oci-worker-labels NAME=8): how
// many steps it is good for at once, compared with the others of a pool. BuildKit itself tells nothing of the kind.
const parallelismLabel = "driver-container.parallelism"

// daemon is one buildkitd. remote is a real one.
type daemon interface {
	// worker asks whether it lives and what it can run.
	worker(ctx context.Context) (worker, error)
	// solve runs one step. Errors: *runner.FailedError; *troubleError when the daemon rather than the step is to blame; ctx's
	// cause; others are ours.
	solve(ctx context.Context, j job) error
	close() error
}

// worker is what a daemon says of itself.
type worker struct {
	native      string   // Go's name of the architecture of its machine
	platforms   []string // "linux/amd64": what it can run, its own and what it emulates
	parallelism int      // at least 1
}

// job is one attempt at a step.
type job struct {
	step  runner.Step
	root  *root
	spool *spool
	dir   string
	say   func(string) // never nil, may be called by any goroutine until solve returns
}

// remote is a daemon that is reached by BuildKit's own client.
type remote struct {
	address string
	client  *client.Client
	tell    func(string)   // what a person wants to know and the command does not say
	solving sync.WaitGroup // solves that may outlive their step by a moment
}

// close ends the connection, and with it every call.
func (r *remote) close() error {
	err := r.client.Close()
	r.solving.Wait()
	if err != nil {
		return fmt.Errorf("end the connection to buildkitd at %s: %w", r.address, err)
	}
	return nil
}

func (r *remote) worker(ctx context.Context) (worker, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerTime, fmt.Errorf("no answer within %v", answerTime))
	defer cancel()
	all, err := r.client.ListWorkers(ctx)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = fmt.Errorf("%w (%w)", cause, err)
		}
		return worker{}, fmt.Errorf("buildkitd at %s does not answer: %w%s", r.address, err, advice(err))
	}
	if len(all) == 0 {
		return worker{}, fmt.Errorf("buildkitd at %s has no worker: start it with --oci-worker=true and look into its log", r.address)
	}
	first := all[0] // the only one that a daemon uses: it says so when it starts
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
