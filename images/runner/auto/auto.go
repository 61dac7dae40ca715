// Package auto finds what compiles modules on this machine: a BuildKit daemon, or a chroot. It compiles nothing
// itself.
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

// Parse reads the word that chooses a kind: auto, chroot, buildkit, buildkit=ADDRESS, ADDRESS or "". host is the
// address for builds that name neither an address nor a chroot; "" is none. Parse looks for nothing.
func Parse(word, host string) (kind Kind, address string, err error) {
	name, address, given := strings.Cut(word, "=")
	if scheme, _, ok := strings.Cut(word, "://"); ok && !strings.Contains(scheme, "=") {
		name, address, given = string(BuildKit), word, true
	}
	switch kind = Kind(name); {
	case word == "":
		kind = Any
	case !slices.Contains([]Kind{Any, Chroot, BuildKit}, kind) || given && (kind != BuildKit || address == ""):
		return kind, "", fmt.Errorf("%q: give an address of BuildKit such as kube-pod://POD, buildkit, chroot or auto", word)
	}
	if host != "" && kind != Chroot && address == "" {
		return BuildKit, host, nil
	}
	return kind, address, nil
}

// Options say what to look for.
type Options struct {
	Kind    Kind
	Address string // of a BuildKit daemon; "": the default address
	TLS     buildkit.TLS
	Work    string       // folder for what runners keep
	Say     func(string) // takes lines for people
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
func (f *Finder) Runner(ctx context.Context) (_ runner.Runner, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.found == nil {
		f.found, err = f.find(ctx)
	}
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
		daemon, err := buildkit.New(ctx, buildkit.Options{Address: o.Address, TLS: o.TLS, Work: filepath.Join(o.Work, "partial"), OnLine: o.Say})
		if err == nil {
			f.close = daemon.Close
			return daemon, nil
		}
		if o.Kind == BuildKit || !errors.Is(err, runner.ErrUnavailable) {
			return nil, err
		}
		reasons = append(reasons, err)
	}
	err := chroot.Supported() //nolint:contextcheck // it tries for a moment whether a root can be set up, and takes it down again
	if err == nil {
		var local *chroot.Runner
		if local, err = chroot.New(filepath.Join(o.Work, "work")); err == nil {
			return local, nil
		}
	}
	reasons = append(reasons, err)
	return nil, fmt.Errorf("%w: %s; run as root or where user namespaces are allowed, or give --builder ADDRESS of a BuildKit daemon",
		ErrNone, errors.Join(reasons...).Error()) // its text alone: their kind does not count
}
