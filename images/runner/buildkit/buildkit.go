// Package buildkit runs steps in BuildKit daemons. It is the runner for users who have builders elsewhere.
//
// The root of a step goes in as an image manifest that this package makes; a daemon fetches from this process
// only the layers that it lacks. The command is one LLB Run without a network. The content of the output
// folder comes back as a tar stream. The cache is BuildKit's: the same layers, command and environment give
// the same digests.
//
// A step goes to the first daemon whose machine has its architecture, else to the first that emulates it.
// When the daemon is lost during a step, the step runs once more, since the address may stand for several.
// This package does not queue, balance or plan, does not start a daemon, does not talk to a registry, and
// keeps nothing on this machine after Close.
package buildkit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/moby/buildkit/util/appdefaults"

	"github.com/driver-container/driver-container/images/runner"
)

// Options say where the daemons are. Addresses have the forms that buildctl accepts:
//
//	unix:///run/buildkit/buildkitd.sock
//	tcp://HOST:PORT                                              plain, or TLS when TLS says so
//	docker-container://NAME?context=CONTEXT                      and podman-container://, nerdctl-container://
//	kube-pod://POD?context=CONTEXT&namespace=NS&container=NAME
//	ssh://USER@HOST:PORT/SOCKET                                  needs buildctl over there
type Options struct {
	Addresses []string // empty: DefaultAddress only
	TLS       TLS      // for tcp:// addresses; DefaultTLS returns the one of the environment
	// Work is the folder for temporary copies of layers that are not files of this machine; "": the system's.
	Work string
	// OnLine gets messages that are not output of a command: daemons that do not answer, layers in transfer. It
	// may be nil.
	OnLine func(line string)
}

// Daemons is a runner.Runner over one or more daemons. It is safe for concurrent use.
type Daemons struct {
	all   []*daemon
	spool *spool
}

// New connects to every daemon and asks what it can run. It returns an error when an address is invalid or a
// certificate cannot be read, and runner.ErrUnavailable when one of them does not answer.
func New(ctx context.Context, o Options) (*Daemons, error) {
	if len(o.Addresses) == 0 {
		o.Addresses = []string{DefaultAddress()}
	}
	say := &serial{output: o.OnLine}
	d := &Daemons{spool: &spool{dir: o.Work}}
	for _, address := range o.Addresses {
		one, err := dial(ctx, address, o.TLS, say.line)
		if err == nil {
			d.all = append(d.all, one)
			if one.platforms, err = one.ask(ctx); err != nil {
				err = unavailable("connect to BuildKit", err)
			}
		}
		if err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	return d, nil
}

// Close closes every connection, when no step runs any more.
func (d *Daemons) Close() error {
	var err error
	for _, one := range d.all {
		err = errors.Join(err, one.close())
	}
	d.all = nil
	return errors.Join(err, d.spool.close())
}

// String returns the name of the runner and its daemons.
func (d *Daemons) String() string {
	names := make([]string, len(d.all))
	for i, one := range d.all {
		names[i] = one.address
	}
	return "buildkit " + strings.Join(names, ", ")
}

// Run implements runner.Runner. A step whose daemon is lost runs once more; a command that failed does not.
func (d *Daemons) Run(ctx context.Context, s runner.Step, dir string, output func(line string)) error {
	if err := s.Check(); err != nil {
		return err
	}
	root, err := newRoot(s.Arch, s.Layers)
	if err != nil {
		return fmt.Errorf("step %s: %w", s.Name, err)
	}
	one, err := d.choose(s)
	if err != nil {
		return err
	}
	lines := &serial{output: output}
	defer lines.end()
	j := job{step: s, root: root, spool: d.spool, dir: dir, output: lines.line}
	if err = one.solve(ctx, j); lost(ctx, err) {
		lines.line(err.Error())
		if _, gone := one.ask(ctx); gone != nil {
			err = errors.Join(err, gone)
		} else if err = empty(dir); err == nil {
			err = one.solve(ctx, j)
		}
	}
	if err == nil {
		return nil
	}
	if trouble := (*daemonError)(nil); errors.As(err, &trouble) && context.Cause(ctx) == nil {
		err = unavailable("step "+s.Name, err)
	}
	return errors.Join(err, empty(dir))
}

// choose returns the first daemon that can run a step, and of these the first whose machine has its
// architecture: a daemon names that one first.
func (d *Daemons) choose(s runner.Step) (*daemon, error) {
	want := "linux/" + s.Arch
	var reasons []error
	for _, native := range []bool{true, false} {
		for _, one := range d.all {
			switch i := slices.Index(one.platforms, want); {
			case i == 0 || i > 0 && !native:
				return one, nil
			case !native:
				reasons = append(reasons, fmt.Errorf("buildkitd at %s runs %s only: add a daemon on a machine of %s, or let this one emulate it (binfmt_misc)",
					one.address, strings.Join(slices.Compact(slices.Clone(one.platforms)), ", "), want))
			}
		}
	}
	return nil, unavailable("step "+s.Name, reasons...)
}

// DefaultAddress returns BUILDKIT_HOST, or the default address of a buildkitd on this machine.
func DefaultAddress() string {
	if a := os.Getenv("BUILDKIT_HOST"); a != "" {
		return a
	}
	return appdefaults.Address
}

var _ runner.Runner = (*Daemons)(nil)

// unavailable returns the error of a runner that cannot run anything, with all reasons.
func unavailable(what string, reasons ...error) error {
	return fmt.Errorf("%s: %w: %w", what, runner.ErrUnavailable, errors.Join(reasons...))
}

// empty removes the files that a failed attempt left in the folder of the result.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	if err != nil {
		return fmt.Errorf("empty %s after a failed attempt: %w", dir, err)
	}
	return nil
}

// serial passes lines to a caller that must not be called by two goroutines at the same time, nor after Run
// has returned.
type serial struct {
	mu     sync.Mutex
	output func(string)
}

func (l *serial) line(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.output != nil {
		l.output(s)
	}
}

func (l *serial) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.output = nil
}
