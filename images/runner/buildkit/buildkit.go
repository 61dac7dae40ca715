// Package buildkit runs steps in BuildKit daemons: the runner for people who have a fleet of builders.
//
// A Pool is a client of one daemon or of several. A step's root goes in as an image manifest made here, and a daemon fetches
// from us only the layers that it lacks; the command is one LLB Run without a network; the content of the output folder
// comes back as a tar stream. Cache hits are BuildKit's: the same layers, command and environment give the same digests.
//
// A step goes to the daemon that has least to do. When a daemon dies under a step, or its disk is full, the step is done
// again on another one. Nothing here queues, limits or plans beyond that, starts a daemon, talks to a registry, or keeps
// anything on this machine after Close.
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

// Options say where the daemons are. Addresses are those that buildctl takes:
//
//	unix:///run/buildkit/buildkitd.sock
//	tcp://HOST:PORT                                              plain, or TLS when TLS says so
//	docker-container://NAME?context=CONTEXT                      and podman-container://, nerdctl-container://
//	kube-pod://POD?context=CONTEXT&namespace=NS&container=NAME
//	ssh://USER@HOST:PORT/SOCKET                                  needs buildctl over there
type Options struct {
	Addresses []string          // none: DefaultAddress alone
	TLS       TLS               // for tcp:// addresses; DefaultTLS gives the environment's
	Work      string            // folder for temporary copies of layers that are no files of this machine; "": the system's
	Say       func(line string) // what is no line of a command: a daemon that does not answer, layers on their way; may be nil
}

// Pool is a runner.Runner over one or more daemons. It is safe for concurrent use.
type Pool struct {
	say     func(string)
	spool   *spool
	closing chan struct{}
	once    sync.Once
	steps   sync.WaitGroup // of Run

	mu      sync.Mutex // guards what changes in the members, and closed
	members []*member
	closed  bool
}

// New connects to every daemon and asks what it can run. It fails when an address makes no sense or a certificate cannot
// be read, and with runner.ErrUnavailable and each daemon's reason when none answers; daemons that do not answer while
// others do are told to Say and asked again later.
func New(ctx context.Context, o Options) (*Pool, error) {
	if len(o.Addresses) == 0 {
		o.Addresses = []string{DefaultAddress()}
	}
	p := newPool(o)
	for i, address := range o.Addresses {
		if slices.Contains(o.Addresses[:i], address) {
			continue // given twice, it is still one machine
		}
		d, err := dial(ctx, address, o.TLS, p.say)
		if err != nil {
			return nil, errors.Join(err, p.Close())
		}
		p.add(address, d)
	}
	if err := p.ask(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func newPool(o Options) *Pool {
	v := &voice{say: o.Say}
	return &Pool{say: v.line, spool: &spool{dir: o.Work}, closing: make(chan struct{})}
}

func (p *Pool) add(address string, d daemon) {
	p.members = append(p.members, &member{address: address, daemon: d})
}

// Close ends the steps that run, and then every connection. It returns when nothing of the pool is left.
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

// String names the runner and its daemons.
func (p *Pool) String() string {
	names := make([]string, len(p.members))
	for i, m := range p.members {
		names[i] = m.address
	}
	return "buildkit " + strings.Join(names, ", ")
}

// DefaultAddress is BUILDKIT_HOST, or where a buildkitd of this machine listens by default.
func DefaultAddress() string {
	if a := os.Getenv("BUILDKIT_HOST"); a != "" {
		return a
	}
	return appdefaults.Address
}

var _ runner.Runner = (*Pool)(nil)

// unavailable makes the error of a runner that cannot run anything, with all reasons.
func unavailable(what string, reasons ...error) error {
	return fmt.Errorf("%s: %w: %w", what, runner.ErrUnavailable, errors.Join(reasons...))
}
