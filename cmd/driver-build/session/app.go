// Package session is what all commands of driver-build share: the flags of every command, the
// connection to cache, network and terminal, the display of progress, printing, mistakes in
// arguments, and exit codes. It knows no command and decides nothing about images. Progress looks
// as BuildKit shows it, which people know from docker build.
package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/registry"
)

// App is one call of driver-build: where its command writes, and the flags that every command has.
// A command gets it when it is made, and reads it when it runs.
type App struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string

	Jobs    int  // --jobs: downloads, unpacking and uploads at a time
	Offline bool // --offline

	CAFile          string   // --ca
	Insecure        bool     // --insecure-registry
	RegistryMirrors []string // --registry-mirror: HOST=MIRROR

	// Of commands with these flags.
	MountFrom []string // repositories that a push may take blobs from
	Format    string   // of what is printed: table, json and others; see the function Format

	// Tests set these; their zero values are the real thing.
	Attempts int
	Backoff  time.Duration
	Binaries Programs
	Clock    func() time.Time

	printing sync.Mutex // of Stdout, where several goroutines print, and of:
	hold     bool       // results are kept back
	held     []string

	cache    string
	progress string
	rollback bool
	begun    bool // the command runs: its arguments are right
	opened   bool // the command has been connected to the cache
	ends     []func() error
}

// Defer runs f when the command has ended; its error is one of the command's.
func (a *App) Defer(f func() error) { a.ends = append(a.ends, f) }

// DeferClose closes c when the command has ended; nil is nothing to close.
func (a *App) DeferClose(c io.Closer) {
	if c != nil {
		a.Defer(c.Close)
	}
}

func (a *App) addFlags(f *pflag.FlagSet) {
	f.StringVar(
		&a.cache,
		"cache",
		"",
		"`DIR` for downloads and finished layers (default $"+cacheVariable+", else $XDG_CACHE_HOME/driver-build)",
	)
	Choice(
		f,
		&a.progress,
		"progress",
		"how to show progress",
		"auto",
		"tty",
		"plain",
		"json",
		"quiet",
	)
	f.IntVar(&a.Jobs, "jobs", 4, "downloads, unpacking and uploads at a time")
	f.BoolVar(
		&a.Offline,
		"offline",
		false,
		"download nothing: use what is in the cache; pushes work",
	)
	f.BoolVar(
		&a.Insecure,
		"insecure-registry",
		false,
		"allow registries without TLS or with a certificate nobody vouches for",
	)
	Rare(f, func(f *pflag.FlagSet) {
		f.BoolVar(
			&a.rollback,
			"allow-rollback",
			false,
			"accept an index of packages that is older than one seen before",
		)
	})
	f.StringVar(
		&a.CAFile,
		"ca",
		"",
		"PEM `FILE` of certificate authorities to trust besides the system's (default $"+caVariable+")",
	)
	f.StringArrayVar(
		&a.RegistryMirrors,
		"registry-mirror",
		nil,
		"`HOST=MIRROR`: ask MIRROR before HOST for base images (repeatable)",
	)
}

// Session is a command's connection to cache, network and terminal, open while App.Connect runs.
type Session struct {
	Builder   *images.Builder
	app       *App
	Publisher *layer.Finder // adds finished layers to registries; nil: the command does not
	display   *display
	transfers *transfers
}

// Connect opens a session, runs f in it and closes it: see [App.Open].
func (a *App) Connect(
	ctx context.Context,
	mirrors map[string][]string,
	programs Programs,
	f func(context.Context, *Session) error,
) error {
	s, err := a.Open(ctx, mirrors, programs)
	if err != nil {
		return err
	}
	return s.Close(ctx, f(ctx, s))
}

// explainDamage looks whether content with a wrong digest lies in the cache. If so, it is removed,
// because every later call would fail in the same way.
func (s *Session) explainDamage(ctx context.Context, err error) error {
	wrong, ok := errors.AsType[*fetch.MismatchError](err)
	if !ok || ctx.Err() != nil {
		return err
	}
	damaged, failed := s.Builder.Store.RemoveDamaged(wrong.Want)
	if damaged > 0 {
		err = fmt.Errorf(
			"%w; %d files of the cache were damaged on the disk and are removed: run the same command again, and look after the disk",
			err,
			damaged,
		)
	}
	return errors.Join(err, failed)
}

// Show opens the terminal's display alone, for work that needs neither cache nor network, runs f
// and closes it.
func (a *App) Show(f func(progress.Observer) error) (err error) {
	d, err := newDisplay(a.Stderr, a.progressMode())
	if err != nil {
		return Usage(err)
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return f(d.Observe)
}

// Open opens a session, which the caller closes. mirrors are the matrix's mirrors of registries;
// those of the command line come first. programs are those that images get; nil is for commands
// that plan no image.
func (a *App) Open(
	ctx context.Context,
	mirrors map[string][]string,
	programs Programs,
) (*Session, error) {
	if a.Jobs < 1 || a.Jobs > 64 {
		return nil, Usagef("--jobs %d: give a number from 1 to 64", a.Jobs)
	}
	if programs == nil {
		programs = a.Programs(ctx, nil)
	}
	all, err := a.Mirrors(mirrors)
	if err != nil {
		return nil, err
	}
	dir, err := a.CacheDir()
	if err != nil {
		return nil, err
	}
	d, err := newDisplay(a.Stderr, a.progressMode()) //nolint:contextcheck // the display ends with its channel, so that it still shows what was cancelled
	if err != nil {
		return nil, Usage(err)
	}
	s := &Session{
		app:       a,
		display:   d,
		transfers: &transfers{observe: d.Observe, open: map[string]*progress.Step{}},
	}
	s.Builder, err = a.newBuilder(dir, registry.Options{
		Jobs:      a.Jobs,
		Offline:   a.Offline,
		Insecure:  a.Insecure,
		CAFile:    cmp.Or(a.CAFile, a.Getenv(caVariable)),
		Mirrors:   all,
		MountFrom: a.MountFrom,
		Attempts:  a.Attempts,
		Backoff:   a.Backoff,
		Progress:  s.transfers.Event,
	})
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	s.Builder.Binaries = programs
	s.Builder.Observe = d.Observe
	a.opened = true
	a.holdResults(true)
	return s, nil
}

// Close ends the session of work that ended with err, and the display after its last line. It
// returns the error of the work, with what is to be said of it.
func (s *Session) Close(ctx context.Context, err error) error {
	err = s.explainDamage(ctx, err)
	s.Builder.Registry.Close()
	s.transfers.End()
	err = errors.Join(err, s.display.Close())
	s.app.holdResults(false)
	return err
}
