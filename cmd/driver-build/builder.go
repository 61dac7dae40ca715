package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/runner"
	"github.com/driver-container/driver-container/images/runner/buildkit"
	"github.com/driver-container/driver-container/images/runner/chroot"
)

// errNoRunner says that this machine has nothing to compile modules with.
var errNoRunner = errors.New("nothing to compile modules with")

// builders is the part of the flags that says what compiles modules ahead of time.
type builders struct {
	values   []string
	compiles int
	tls      buildkit.TLS

	addresses []string // of BuildKit daemons, after check
	kind      string   // auto, chroot or buildkit, after check
}

func (b *builders) flags(f *pflag.FlagSet) {
	f.StringArrayVar(&b.values, "builder", nil, "what compiles for --kernel: buildkit[=ADDRESS] (repeatable: they share the work), chroot or auto (default auto)")
	f.IntVar(&b.compiles, "compiles", 0, "compiles at a time (default: one a BuildKit daemon, one in a chroot)")
	b.tls = buildkit.DefaultTLS()
	f.StringVar(&b.tls.CA, "builder-ca", b.tls.CA, "PEM file of the authority of a BuildKit daemon's certificate (BUILDKIT_TLS_CACERT)")
	f.StringVar(&b.tls.Cert, "builder-cert", b.tls.Cert, "PEM file of our certificate for a BuildKit daemon (BUILDKIT_TLS_CERT)")
	f.StringVar(&b.tls.Key, "builder-key", b.tls.Key, "PEM file of its key (BUILDKIT_TLS_KEY)")
	f.StringVar(&b.tls.ServerName, "builder-name", b.tls.ServerName, "name in the daemon's certificate, where it is not the address's (BUILDKIT_TLS_SERVERNAME)")
}

// check decides which kind of runner is meant, without looking for one. BUILDKIT_HOST counts as an address that was given.
func (b *builders) check(getenv func(string) string) error {
	b.kind = "auto"
	for _, v := range b.values {
		kind, address, given := strings.Cut(v, "=")
		switch {
		case !slices.Contains([]string{"auto", "chroot", "buildkit"}, kind) || given && (kind != "buildkit" || address == ""):
			return fmt.Errorf("--builder %q: give buildkit, buildkit=ADDRESS, chroot or auto", v)
		case b.kind != "auto" && b.kind != kind:
			return fmt.Errorf("--builder %s and %s: one kind of builder at a time; several BuildKit daemons share the work", b.kind, kind)
		}
		b.kind = kind
		if given {
			b.addresses = append(b.addresses, address)
		}
	}
	if b.compiles < 0 || b.compiles > 64 {
		return fmt.Errorf("--compiles %d: give a number from 1 to 64", b.compiles)
	}
	if host := getenv("BUILDKIT_HOST"); host != "" && b.kind != "chroot" && len(b.addresses) == 0 {
		b.kind, b.addresses = "buildkit", []string{host}
	}
	return nil
}

// use gives the builder its runner, which is looked for when there is something to compile. The result ends it.
func (b *builders) use(builder *images.Builder, say func(string)) func() error {
	var mu sync.Mutex
	var found runner.Runner
	end := func() error { return nil }
	builder.Compiles = b.compiles
	if b.compiles == 0 {
		builder.Compiles = max(1, len(b.addresses))
	}
	work := builder.Store.Dir()
	builder.Runner = func(ctx context.Context) (runner.Runner, error) {
		mu.Lock()
		defer mu.Unlock()
		if found != nil {
			return found, nil
		}
		var err error
		found, end, err = b.open(ctx, work, say)
		return found, err
	}
	return func() error {
		mu.Lock()
		defer mu.Unlock()
		return end()
	}
}

// open finds a runner: what was asked for, or, with auto, a BuildKit daemon at its default address and else a chroot.
func (b *builders) open(ctx context.Context, work string, say func(string)) (runner.Runner, func() error, error) {
	none := func() error { return nil }
	var reasons []error
	if b.kind != "chroot" {
		pool, err := buildkit.New(ctx, buildkit.Options{Addresses: b.addresses, TLS: b.tls, Work: filepath.Join(work, "tmp"), Say: say})
		if err == nil {
			return pool, pool.Close, nil
		}
		if b.kind == "buildkit" || !errors.Is(err, runner.ErrUnavailable) {
			return nil, none, err
		}
		reasons = append(reasons, err)
	}
	err := chroot.Supported() //nolint:contextcheck // it tries for a moment whether a root can be set up, and takes it down again
	if err == nil {
		var local *chroot.Runner
		if local, err = chroot.New(chroot.Options{Work: filepath.Join(work, "roots")}); err == nil {
			say("limits of a compile here: " + local.Limits())
			return local, none, nil
		}
	}
	reasons = append(reasons, err)
	return nil, none, fmt.Errorf("%w: %w; run as root or where user namespaces are allowed, or give --builder buildkit=ADDRESS", errNoRunner, errors.Join(reasons...))
}
