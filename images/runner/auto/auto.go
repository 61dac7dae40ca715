// Package auto finds what compiles modules on this machine: BuildKit daemons, or a chroot. It compiles
// nothing itself.
package auto

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/runner"
	"github.com/driver-container/driver-container/images/runner/buildkit"
	"github.com/driver-container/driver-container/images/runner/chroot"
)

// ErrNone says that this machine has nothing to compile modules with.
var ErrNone = failure.New(failure.Step, "nothing to compile modules with")

// Kind is a kind of runner.
type Kind string

// The kinds of runners. With Any a BuildKit daemon at its default address is taken, and a chroot where there
// is none.
const (
	Any      Kind = "auto"
	BuildKit Kind = "buildkit"
	Chroot   Kind = "chroot"
)

// Parse reads the words that choose a kind: auto, chroot, buildkit, buildkit=ADDRESS or ADDRESS. host is one
// more address, for builds that name neither an address nor a chroot; "" is none. Parse looks for nothing.
func Parse(words []string, host string) (kind Kind, addresses []string, err error) {
	kind = Any
	for _, w := range words {
		k, address, given := strings.Cut(w, "=")
		if scheme, _, ok := strings.Cut(w, "://"); ok && !strings.Contains(scheme, "=") {
			k, address, given = string(BuildKit), w, true
		}
		switch {
		case !slices.Contains([]Kind{Any, Chroot, BuildKit}, Kind(k)) || given && (Kind(k) != BuildKit || address == ""):
			return kind, nil, fmt.Errorf("%q: give an address of BuildKit such as kube-pod://POD, buildkit, chroot or auto", w)
		case kind != Any && kind != Kind(k):
			return kind, nil, fmt.Errorf("%s and %s: one kind of builder at a time", kind, k)
		}
		kind = Kind(k)
		if given {
			addresses = append(addresses, address)
		}
	}
	if host != "" && kind != Chroot && len(addresses) == 0 {
		return BuildKit, []string{host}, nil
	}
	return kind, addresses, nil
}

// Options say what to look for.
type Options struct {
	Kind      Kind
	Addresses []string // of BuildKit daemons; empty: the default address
	TLS       buildkit.TLS
	Work      string       // folder for what runners keep
	Say       func(string) // takes lines for people
}

// Finder looks for a runner when it is first asked for one, and keeps it until it is closed.
type Finder struct {
	options Options
	mu      sync.Mutex
	found   runner.Runner
	close   func() error // nil: there is nothing to close
}

// New makes a finder. It looks for nothing.
func New(o Options) *Finder { return &Finder{options: o} }

// Runner gives the runner.
func (f *Finder) Runner(ctx context.Context) (runner.Runner, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.found != nil {
		return f.found, nil
	}
	var err error
	f.found, err = f.find(ctx)
	return f.found, err
}

// Close ends the runner, if one was found.
func (f *Finder) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.close == nil {
		return nil
	}
	return f.close()
}

func (f *Finder) find(ctx context.Context) (runner.Runner, error) {
	o := f.options
	var reasons []error
	if o.Kind != Chroot {
		daemons, err := buildkit.New(ctx, buildkit.Options{Addresses: o.Addresses, TLS: o.TLS, Work: filepath.Join(o.Work, "tmp"), OnLine: o.Say})
		if err == nil {
			f.close = daemons.Close
			return daemons, nil
		}
		if o.Kind == BuildKit || !errors.Is(err, runner.ErrUnavailable) {
			return nil, err
		}
		reasons = append(reasons, err)
	}
	err := chroot.Supported() //nolint:contextcheck // it tries for a moment whether a root can be set up, and takes it down again
	if err == nil {
		var local *chroot.Runner
		if local, err = chroot.New(chroot.Options{Work: filepath.Join(o.Work, "roots")}); err == nil {
			o.Say("limits of a compile here: " + local.Limits())
			return local, nil
		}
	}
	reasons = append(reasons, err)
	return nil, fmt.Errorf("%w: %s; run as root or where user namespaces are allowed, or give --builder ADDRESS of a BuildKit daemon",
		ErrNone, errors.Join(reasons...).Error()) // its text alone: their kind does not count
}
