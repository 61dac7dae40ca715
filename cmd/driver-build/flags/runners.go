package flags

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/runner/buildkit"
)

// Runners says what compiles modules ahead of time.
type Runners struct {
	values   []string
	compiles int
	tls      buildkit.TLS

	address string      // of a BuildKit daemon, after Check
	kind    builderKind // after Check
}

// AddTo declares the flags.
func (r *Runners) AddTo(f *pflag.FlagSet) {
	f.StringArrayVar(&r.values, "builder", nil, "what compiles for --kernel: an `ADDRESS` of BuildKit such as kube-pod://POD, buildkit, chroot or auto (default auto)")
	f.IntVar(&r.compiles, "compiles", 1, "compiles at a time")
	r.tls = buildkit.DefaultTLS()
	f.StringVar(&r.tls.Dir, "builder-tls", r.tls.Dir, "`DIR` with ca.pem, cert.pem and key.pem for a BuildKit daemon at tcp:// (default $BUILDKIT_TLS_DIR)")
	session.Hide(f, "compiles")
}

// Check decides which kind of runner is meant, and does not look for one. BUILDKIT_HOST counts as an address
// of --builder.
func (r *Runners) Check(getenv func(string) string) (err error) {
	if r.compiles < 1 || r.compiles > 64 {
		return session.Usagef("--compiles %d: give a number from 1 to 64", r.compiles)
	}
	if len(r.values) > 1 {
		return session.Usagef("--builder %s: one builder at a time: build each architecture with its own, a build of all takes the modules from the cache",
			strings.Join(r.values, " and "))
	}
	if r.kind, r.address, err = parseBuilder(strings.Join(r.values, ""), getenv("BUILDKIT_HOST")); err != nil {
		return session.Usagef("--builder %w", err)
	}
	if r.tls != buildkit.DefaultTLS() && !strings.HasPrefix(r.address, "tcp://") {
		return session.Usagef("--builder-tls is about a daemon at tcp://: give --builder tcp://HOST:PORT")
	}
	if r.address == "" {
		return nil
	}
	err = buildkit.Check(r.address, r.tls)
	if err == nil && len(r.values) > 0 { // BUILDKIT_HOST is for all builds, also for those that compile nothing
		err = buildkit.FindProgram(r.address)
	}
	if err != nil {
		return session.Usagef("--builder: %w", err)
	}
	return nil
}

// Named says whether the user chose what compiles.
func (r *Runners) Named() bool { return r.kind != anyBuilder }

// Try looks for a runner as a build does, ends it, and returns its name. work is a folder for what it keeps.
func (r *Runners) Try(ctx context.Context, work string) (found string, err error) {
	finder := &builderFinder{kind: r.kind, address: r.address, tls: r.tls, work: work, say: func(string) {}}
	defer func() { err = errors.Join(err, finder.close()) }()
	with, err := finder.runner(ctx)
	if err != nil {
		return "", err
	}
	return with.String(), nil
}

// Attach gives the session a runner, which is found when the first compile needs it. The returned function
// ends the runner.
func (r *Runners) Attach(s *session.Session) func() error {
	s.Compiles = r.compiles
	say := func(line string) { _ = s.Step("builder", line).End(false, nil) }
	finder := &builderFinder{kind: r.kind, address: r.address, tls: r.tls, work: s.Store.Dir(), say: say}
	s.Runner = finder.runner
	return finder.close
}
