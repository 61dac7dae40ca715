// Package buildkit runs steps in BuildKit daemons. It is the runner for users who have a fleet of builders.
//
// A Pool is a client of one or several daemons. The root of a step goes in as an image manifest that this
// package makes; a daemon fetches from this process only the layers that it lacks. The command is one LLB Run
// without a network. The content of the output folder comes back as a tar stream. The cache is BuildKit's:
// the same layers, command and environment give the same digests.
//
// A step goes to the least loaded daemon. When a daemon dies during a step, or its disk is full, the step
// runs again on another daemon. This package does not queue, limit or plan beyond that, does not start a
// daemon, does not talk to a registry, and keeps nothing on this machine after Close.
package buildkit

import (
	"context"
	"errors"
	"fmt"
	"os"
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

// Pool is a runner.Runner over one or more daemons. It is safe for concurrent use.
type Pool struct {
	onLine  func(string)
	spool   *spool
	closing chan struct{}
	once    sync.Once
	steps   sync.WaitGroup // running calls of Run

	mu      sync.Mutex // guards the changing fields of the members, and closed
	members []*member
	closed  bool
}

// New connects to every daemon and asks what it can run. It returns an error when an address is invalid or a
// certificate cannot be read, and runner.ErrUnavailable with the reason of each daemon when none answers. If
// only some daemons do not answer, New reports them to OnLine, and the pool asks them again later.
func New(ctx context.Context, o Options) (*Pool, error) {
	if len(o.Addresses) == 0 {
		o.Addresses = []string{DefaultAddress()}
	}
	p := newPool(o)
	for i, address := range o.Addresses {
		if slices.Contains(o.Addresses[:i], address) {
			continue // given twice, it is one machine
		}
		d, err := dial(ctx, address, o.TLS, p.onLine)
		if err != nil {
			return nil, errors.Join(err, p.Close())
		}
		p.add(address, d)
	}
	if err := p.probeAll(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func newPool(o Options) *Pool {
	v := &serial{output: o.OnLine}
	return &Pool{onLine: v.line, spool: &spool{dir: o.Work}, closing: make(chan struct{})}
}

func (p *Pool) add(address string, d daemon) {
	p.members = append(p.members, &member{address: address, daemon: d})
}

// Close ends the running steps and then every connection. It returns when nothing of the pool is left.
func (p *Pool) Close() error {
	var err error
	p.once.Do(func() {
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		close(p.closing)
		p.steps.Wait()
		for _, m := range p.members {
			err = errors.Join(err, m.daemon.close())
		}
		err = errors.Join(err, p.spool.close())
	})
	return err
}

// String returns the name of the runner and its daemons.
func (p *Pool) String() string {
	names := make([]string, len(p.members))
	for i, m := range p.members {
		names[i] = m.address
	}
	return "buildkit " + strings.Join(names, ", ")
}

// DefaultAddress returns BUILDKIT_HOST, or the default address of a buildkitd on this machine.
func DefaultAddress() string {
	if a := os.Getenv("BUILDKIT_HOST"); a != "" {
		return a
	}
	return appdefaults.Address
}

var _ runner.Runner = (*Pool)(nil)

// unavailable returns the error of a runner that cannot run anything, with all reasons.
func unavailable(what string, reasons ...error) error {
	return fmt.Errorf("%s: %w: %w", what, runner.ErrUnavailable, errors.Join(reasons...))
}
