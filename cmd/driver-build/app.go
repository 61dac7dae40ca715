package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/packages"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
)

// app is what all commands share: where to write, and the flags that say how to reach things.
type app struct {
	stdout, stderr io.Writer
	getenv         func(string) string

	cache    string
	progress string
	jobs     int
	offline  bool
	insecure bool
	caFile   string
	mirrors  []string // of registries, HOST=MIRROR
	rollback bool

	// Tests set these; their zero values are the real thing.
	attempts int
	backoff  time.Duration
	binaries func(arch string) ([]recipe.Binary, error)
}

func (a *app) globalFlags(f *pflag.FlagSet) {
	f.StringVar(&a.cache, "cache", "", "folder for downloads and finished layers (default $XDG_CACHE_HOME/driver-build)")
	f.StringVar(&a.progress, "progress", "auto", "how to show progress: auto, tty, plain, json or quiet")
	f.IntVar(&a.jobs, "jobs", 4, "downloads, unpacking and uploads at a time")
	f.BoolVar(&a.offline, "offline", false, "use only what is in the cache")
	f.BoolVar(&a.insecure, "insecure-registry", false, "allow registries without TLS or with a certificate nobody vouches for")
	f.BoolVar(&a.rollback, "allow-rollback", false, "accept an index of rpm packages that is older than one seen before")
	f.StringVar(&a.caFile, "ca", "", "PEM file of certificate authorities to trust besides the system's")
	f.StringArrayVar(&a.mirrors, "registry-mirror", nil, "HOST=MIRROR: ask MIRROR before HOST for base images (repeatable)")
}

// session is one run's connection to cache, network and terminal.
type session struct {
	builder  *images.Builder
	registry *registry.Client
	display  *display
	watch    *transfers
}

// open prepares a session. mirrors are the matrix's; those of the command line come first. entrypoint as in --entrypoint.
func (a *app) open(mirrors map[string][]string, entrypoint string) (*session, error) {
	if a.jobs < 1 || a.jobs > 64 {
		return nil, usageError{fmt.Errorf("--jobs %d: give a number from 1 to 64", a.jobs)}
	}
	all, err := a.allMirrors(mirrors)
	if err != nil {
		return nil, err
	}
	client, err := a.httpClient()
	if err != nil {
		return nil, err
	}
	dir, err := a.cacheDir()
	if err != nil {
		return nil, err
	}
	store, err := fetch.OpenStore(dir)
	if err != nil {
		return nil, fmt.Errorf("open the cache: %w", err)
	}
	d, err := newDisplay(a.stderr, a.progress) //nolint:contextcheck // the display ends with its channel, so that it still shows what was cancelled
	if err != nil {
		return nil, usageError{err}
	}
	s := &session{display: d, watch: newTransfers(d.observe)}
	s.registry, err = registry.New(registry.Options{
		Store: store, Insecure: a.insecure, CAFile: a.caFile, Mirrors: all, Offline: a.offline, Jobs: a.jobs, Progress: s.watch.event,
		Attempts: a.attempts, Backoff: a.backoff,
	})
	if err != nil {
		return nil, errors.Join(usageError{err}, d.close())
	}
	info := buildInfo()
	s.builder = &images.Builder{
		Planner: images.Planner{
			Env: packages.Env{
				Store: store, Jobs: a.jobs, Machine: os.DirFS("/"), AllowRollback: a.rollback,
				Fetch: &fetch.Client{
					Store: store, HTTP: client, Offline: a.offline, UserAgent: "driver-build/" + info.Version, Attempts: a.attempts, Backoff: a.backoff,
				},
			},
			Registry: s.registry, Observe: d.observe,
		},
		Binaries: a.binaries, Info: info,
	}
	if a.binaries == nil {
		s.builder.Binaries = images.Binaries(programDir(), entrypoint, info.Version)
	}
	return s, nil
}

// close ends the display, after its last line has been written.
func (s *session) close() error {
	s.registry.Close()
	s.watch.end()
	return s.display.close()
}

// with opens a session, runs f in it and closes it.
func (a *app) with(ctx context.Context, mirrors map[string][]string, entrypoint string, f func(context.Context, *session) error) (err error) {
	s, err := a.open(mirrors, entrypoint) //nolint:contextcheck // the display ends with close, after the context
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	return f(ctx, s)
}

func (a *app) cacheDir() (string, error) {
	if a.cache != "" {
		return a.cache, nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", usageError{fmt.Errorf("no place for the cache: %w; give --cache DIR", err)}
	}
	return filepath.Join(dir, "driver-build"), nil
}

func (a *app) allMirrors(matrix map[string][]string) (map[string][]string, error) {
	all := map[string][]string{}
	for _, m := range a.mirrors {
		host, mirror, ok := strings.Cut(m, "=")
		if !ok || host == "" || mirror == "" {
			return nil, usageError{fmt.Errorf("--registry-mirror %q: give HOST=MIRROR, such as docker.io=mirror.example.com:5000", m)}
		}
		all[host] = append(all[host], mirror)
	}
	for host, list := range matrix {
		all[host] = append(all[host], list...)
	}
	return all, nil
}

// httpClient trusts the authorities of --ca besides the system's, for package mirrors and driver downloads.
func (a *app) httpClient() (*http.Client, error) {
	if a.caFile == "" {
		return nil, nil //nolint:nilnil // nil is fetch's own client
	}
	pem, err := os.ReadFile(a.caFile)
	if err != nil {
		return nil, usageError{fmt.Errorf("--ca: %w", err)}
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, usageError{fmt.Errorf("--ca %s: no certificate in it (PEM is expected)", a.caFile)}
	}
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, errors.New("the default HTTP transport has been replaced")
	}
	t = t.Clone()
	t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return &http.Client{Transport: t}, nil
}

// programDir is the folder of this program: the entrypoint's binaries lie beside it.
func programDir() string {
	exe, err := os.Executable()
	if err != nil {
		return "."
	}
	if target, err := filepath.EvalSymlinks(exe); err == nil {
		exe = target
	}
	return filepath.Dir(exe)
}
