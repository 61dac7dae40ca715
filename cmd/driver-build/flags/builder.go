package flags

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

// errNoBuilder says that this machine has nothing to compile modules with.
var errNoBuilder = failure.New(failure.Step, "nothing to compile modules with")

// builderKind is a kind of runner.
type builderKind string

// The kinds of runners. With anyBuilder a BuildKit daemon at its default address is taken, and a chroot where there
// is none.
const (
	anyBuilder      builderKind = "auto"
	buildkitBuilder builderKind = "buildkit"
	chrootBuilder   builderKind = "chroot"
)

// parseBuilder reads the word that chooses a kind: auto, chroot, buildkit, buildkit=ADDRESS, ADDRESS or "". host is the
// address for builds that name neither an address nor a chroot; "" is none. It looks for nothing.
func parseBuilder(word, host string) (kind builderKind, address string, err error) {
	name, address, given := strings.Cut(word, "=")
	if scheme, _, ok := strings.Cut(word, "://"); ok && !strings.Contains(scheme, "=") {
		name, address, given = string(buildkitBuilder), word, true
	}
	switch kind = builderKind(name); {
	case word == "":
		kind = anyBuilder
	case !slices.Contains([]builderKind{anyBuilder, chrootBuilder, buildkitBuilder}, kind) || given && (kind != buildkitBuilder || address == ""):
		return kind, "", fmt.Errorf("%q: give an address of BuildKit such as kube-pod://POD, buildkit, chroot or auto", word)
	}
	if host != "" && kind != chrootBuilder && address == "" {
		return buildkitBuilder, host, nil
	}
	return kind, address, nil
}

// builderFinder looks for a runner when it is first asked for one, and keeps it until it is closed.
type builderFinder struct {
	kind    builderKind
	address string // of a BuildKit daemon; "": the default address
	tls     buildkit.TLS
	work    string       // folder for what runners keep
	say     func(string) // takes lines for people

	mu    sync.Mutex
	found runner.Runner
	end   func() error // nil: there is nothing to close
}

// runner gives the runner.
func (f *builderFinder) runner(ctx context.Context) (_ runner.Runner, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.found == nil {
		f.found, err = f.find(ctx)
	}
	return f.found, err
}

// close ends the runner, if one was found.
func (f *builderFinder) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.end == nil {
		return nil
	}
	return f.end()
}

func (f *builderFinder) find(ctx context.Context) (runner.Runner, error) {
	var reasons []error
	if f.kind != chrootBuilder {
		daemon, err := buildkit.New(ctx, buildkit.Options{Address: f.address, TLS: f.tls, Work: filepath.Join(f.work, "partial"), OnLine: f.say})
		if err == nil {
			f.end = daemon.Close
			return daemon, nil
		}
		if f.kind == buildkitBuilder || !errors.Is(err, runner.ErrUnavailable) {
			return nil, err
		}
		reasons = append(reasons, err)
	}
	err := chroot.Supported() //nolint:contextcheck // it tries for a moment whether a root can be set up, and takes it down again
	if err == nil {
		var local *chroot.Runner
		if local, err = chroot.New(filepath.Join(f.work, "work")); err == nil {
			return local, nil
		}
	}
	reasons = append(reasons, err)
	return nil, fmt.Errorf("%w: %s; run as root or where user namespaces are allowed, or give --builder ADDRESS of a BuildKit daemon",
		errNoBuilder, errors.Join(reasons...).Error()) // its text alone: their kind does not count
}
