package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/cmd/driver-build/display"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/registry"
)

// app is what all commands share: where they write, and the flags for the cache and the network.
type app struct {
	stdout, stderr io.Writer
	getenv         func(string) string
	printing       sync.Mutex // of stdout, where several goroutines print

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
	binaries batch.Programs
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
	*images.Builder
	display   *display.Display
	transfers *display.Transfers
}

// open prepares a session. mirrors are the matrix's; those of the command line come first.
func (a *app) open(mirrors map[string][]string, programs batch.Programs) (*session, error) {
	if a.jobs < 1 || a.jobs > 64 {
		return nil, usageError{fmt.Errorf("--jobs %d: give a number from 1 to 64", a.jobs)}
	}
	all, err := a.allMirrors(mirrors)
	if err != nil {
		return nil, err
	}
	dir, err := a.cacheDir()
	if err != nil {
		return nil, err
	}
	d, err := display.New(a.stderr, a.progress) //nolint:contextcheck // the display ends with its channel, so that it still shows what was cancelled
	if err != nil {
		return nil, usageError{err}
	}
	s := &session{display: d, transfers: display.NewTransfers(d.Observe)}
	s.Builder, err = batch.Connect(batch.Connection{
		Cache: dir, Jobs: a.jobs, Offline: a.offline, Insecure: a.insecure, CAFile: a.caFile, Mirrors: all, AllowRollback: a.rollback,
		Programs: programs, Info: buildInfo(), Attempts: a.attempts, Backoff: a.backoff, Observe: d.Observe, Progress: s.transfers.Event,
	})
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return s, nil
}

// programs finds the programs for images of this version; entrypoint is the value of --entrypoint.
func (a *app) programs(entrypoint string) batch.Programs {
	if a.binaries != nil {
		return a.binaries
	}
	return images.Binaries(programDir(), entrypoint, buildInfo().Version)
}

// step begins a step of the command itself.
func (s *session) step(target, name string) *progress.Step {
	return s.Observe.Begin(target, name)
}

// close ends the display, after its last line has been written.
func (s *session) close() error {
	s.Registry.Close()
	s.transfers.End()
	return s.display.Close()
}

// with opens a session, runs f in it and closes it.
func (a *app) with(ctx context.Context, mirrors map[string][]string, programs batch.Programs, f func(context.Context, *session) error) (err error) {
	s, err := a.open(mirrors, programs) //nolint:contextcheck // the display ends with close, after the context
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	return f(ctx, s)
}

// result prints a line on stdout; lines of several goroutines do not mix.
func (a *app) result(line string) {
	a.printing.Lock()
	defer a.printing.Unlock()
	fmt.Fprintln(a.stdout, line)
}

// printNotes prints what the user should know; it is called when the display has ended.
func (a *app) printNotes(notes []string) {
	for _, n := range notes {
		fmt.Fprintln(a.stderr, "note: "+n)
	}
}

func (a *app) printJSON(v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "%s\n", b)
	return err
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
		if err := registry.CheckMirror(host, mirror); err != nil {
			return nil, usageError{fmt.Errorf("--registry-mirror: %w", err)}
		}
		all[host] = append(all[host], mirror)
	}
	for host, list := range matrix {
		all[host] = append(all[host], list...)
	}
	return all, nil
}

// programDir is the folder of this program, where the programs for images are too.
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
