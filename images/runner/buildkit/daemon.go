package buildkit

import (
	"context"
	"fmt"
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

// job is one attempt at a step.
type job struct {
	step   runner.Step
	root   *root
	spool  *spool
	dir    string
	output func(string) // never nil, may be called by any goroutine until solve returns
}

// daemon is one buildkitd.
type daemon struct {
	address   string
	program   *dialstdio.Dialer // nil: a socket
	client    *client.Client
	platforms []string       // "linux/amd64": what it can run, that of its machine first
	notify    func(string)   // gets messages for people that the command does not print
	solving   sync.WaitGroup // solves that may run a moment longer than their step
}

// close closes the connection, which ends every call.
func (d *daemon) close() error {
	err := d.client.Close()
	d.solving.Wait()
	if err != nil {
		return fmt.Errorf("end the connection to buildkitd at %s: %w", d.address, err)
	}
	return nil
}

// answerTime is the time for the daemon to answer that it is alive.
func (d *daemon) answerTime() time.Duration {
	if d.program != nil {
		return programTime
	}
	return socketTime
}

// reason returns how the program ended that is the connection, because gRPC's own error about it is long and
// has no type, and err if none has ended.
func (d *daemon) reason(err error) error {
	if d.program != nil {
		if ended := d.program.Ended(); ended != nil {
			return ended
		}
	}
	return err
}

// advice returns what to do about a daemon that does not answer.
func (d *daemon) advice(err error) string {
	switch {
	case d.program == nil:
		return advice(err)
	case d.program.Ended() != nil:
		return "" // the error says it
	default:
		return ": " + d.program.Advice()
	}
}

// ask returns the platforms of a daemon that is alive.
func (d *daemon) ask(ctx context.Context) (platforms []string, err error) {
	limit := d.answerTime()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v", limit))
	defer cancel()
	all, err := d.client.ListWorkers(ctx)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = fmt.Errorf("%w (%w)", cause, err)
		}
		return nil, fmt.Errorf("buildkitd at %s does not answer: %w%s", d.address, d.reason(err), d.advice(err))
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("buildkitd at %s has no worker: start it with --oci-worker=true and look into its log", d.address)
	}
	first := all[0] // the only one that a daemon uses: it says so when it starts
	if first.BuildkitVersion.Version == "" {
		return nil, fmt.Errorf("buildkitd at %s is too old: give the address of one of %s or newer; make buildkitd starts the version that this project is tested with", d.address, oldest)
	}
	for _, p := range first.Platforms {
		platforms = append(platforms, p.OS+"/"+p.Architecture)
	}
	return platforms, nil
}
