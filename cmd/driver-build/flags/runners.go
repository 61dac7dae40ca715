package flags

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/runner"
	"github.com/driver-container/driver-container/images/runner/buildkit"
	"github.com/driver-container/driver-container/images/runner/chroot"
)

// The kinds of runners. With anyBuilder a BuildKit daemon at its default address is taken, and a
// chroot where there is none.
const (
	anyBuilder      = "auto"
	buildkitBuilder = "buildkit"
	chrootBuilder   = "chroot"
)

// parseBuilder reads the word that chooses a kind: auto, chroot, buildkit, buildkit=ADDRESS,
// ADDRESS or "". host is the address for builds that name neither an address nor a chroot; "" is
// none. It looks for nothing.
func parseBuilder(word, host string) (kind, address string, err error) {
	kind = cmp.Or(word, anyBuilder)
	after, given := strings.CutPrefix(word, buildkitBuilder+"=")
	if given || strings.Contains(word, "://") {
		kind = buildkitBuilder
		address = after
	}
	switch {
	case !slices.Contains([]string{anyBuilder, chrootBuilder, buildkitBuilder}, kind) || given && address == "":
		return kind, "", fmt.Errorf(
			"%q: give an address of BuildKit such as kube-pod://POD, buildkit, chroot or auto",
			word,
		)
	case host != "" && kind != chrootBuilder && address == "":
		return buildkitBuilder, host, nil
	}
	return kind, address, nil
}

// Runners says what compiles modules ahead of time.
type Runners struct {
	values []string
	tls    buildkit.TLS

	kind, address string // of a BuildKit daemon; after Check
}

// AddTo declares the flags.
func (r *Runners) AddTo(f *pflag.FlagSet) {
	f.StringArrayVar(
		&r.values,
		"builder",
		nil,
		"what compiles for --kernel: an `ADDRESS` of BuildKit such as kube-pod://POD, buildkit, chroot or auto (default auto)",
	)
	r.tls = buildkit.DefaultTLS()
}

// Check decides which kind of runner is meant, and does not look for one. BUILDKIT_HOST counts as
// an address of --builder.
func (r *Runners) Check(ctx context.Context, getenv func(string) string) (err error) {
	if len(r.values) > 1 {
		return session.Usagef(
			"--builder %s: one builder at a time: build each architecture with its own, a build of all takes the modules from the cache",
			strings.Join(r.values, " and "),
		)
	}
	r.kind, r.address, err = parseBuilder(strings.Join(r.values, ""), getenv("BUILDKIT_HOST"))
	if err != nil {
		return session.Usagef("--builder %w", err)
	}
	if r.address == "" {
		return nil
	}
	err = buildkit.Check(ctx, r.address, r.tls)
	// BUILDKIT_HOST is for all builds, also for those that compile nothing
	if err != nil && (len(r.values) > 0 || !errors.Is(err, runner.ErrUnavailable)) {
		return session.Usagef("--builder: %w", err)
	}
	return nil
}

// Named says whether the user chose what compiles.
func (r *Runners) Named() bool { return r.kind != anyBuilder }

// Try looks for a runner as a build does, ends it, and returns its name. work is a folder for what
// it keeps.
func (r *Runners) Try(ctx context.Context, work string) (string, error) {
	with, err := r.find(ctx, work, func(string) {})
	if err != nil {
		return "", err
	}
	return with.String(), end(with)
}

// Attach gives the session a runner, which is found when the first compile needs it. The returned
// function ends the runner.
func (r *Runners) Attach(s *session.Session) func() error {
	say := func(line string) { _ = s.Builder.Observe.Begin("builder", line).End(false, nil) }
	var one sync.Mutex
	var found runner.Runner
	s.Builder.Runner = func(ctx context.Context) (_ runner.Runner, err error) {
		one.Lock()
		defer one.Unlock()
		if found == nil {
			found, err = r.find(ctx, s.Builder.Store.Dir(), say)
		}
		return found, err
	}
	return func() error {
		one.Lock()
		defer one.Unlock()
		return end(found)
	}
}

// end ends a runner that lasts: a BuildKit daemon.
func end(r runner.Runner) error {
	if daemon, ok := r.(io.Closer); ok {
		return daemon.Close()
	}
	return nil
}

// find looks for a runner. work is a folder for what it keeps, say takes lines for people.
func (r *Runners) find(
	ctx context.Context,
	work string,
	say func(string),
) (runner.Runner, error) {
	var unavailable error
	if r.kind != chrootBuilder {
		daemon, err := buildkit.New(ctx, buildkit.Options{
			Address: r.address,
			TLS:     r.tls,
			Work:    filepath.Join(work, "partial"),
			OnLine:  say,
		})
		switch {
		case err == nil:
			return daemon, nil
		case r.kind == buildkitBuilder || !errors.Is(err, runner.ErrUnavailable):
			return nil, err
		}
		unavailable = err
	}
	local, err := newChroot(filepath.Join(work, "work")) //nolint:contextcheck // it tries for a moment
	if err != nil {
		return nil, failure.Errorf(
			failure.Step,
			"nothing to compile modules with: %s; run as root or where user namespaces are allowed, "+
				"or give --builder ADDRESS of a BuildKit daemon",
			errors.Join(unavailable, err).Error(), // its text alone: their kind does not count
		)
	}
	return local, nil
}

// newChroot returns a runner, if a root can be set up here: it tries that, and takes it down again.
func newChroot(work string) (*chroot.Runner, error) {
	err := chroot.Supported()
	if err != nil {
		return nil, err
	}
	return chroot.New(work)
}
