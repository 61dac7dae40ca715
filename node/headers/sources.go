package headers

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/distros/apt"
)

const (
	parallel   = 4   // repositories asked at once
	maxSources = 200 // repositories in the configuration of one image
)

// open asks every repository that the image is configured with and opens those that answer with a trusted signature. Each
// is asked by itself, because one that cannot be reached (an image with its distribution's own sources, in a network that
// has a mirror only) must not hide the others. e learns which were searched and which were not.
func (f *fetcher) open(ctx context.Context, arch string, e *UnavailableError) (*apt.Releases, error) {
	sources, err := apt.ReadSources(f.files)
	if err != nil {
		e.Err = err
		return nil, e
	}
	sources = split(sources, arch)
	if len(sources) == 0 || len(sources) > maxSources {
		e.Err = fmt.Errorf("%d package repositories are configured for %s in /etc/apt, want 1 to %d", len(sources), arch, maxSources)
		return nil, e
	}
	unchecked := f.conf.is("acquire::check-valid-until", false)
	o := apt.Options{Fetch: f.client, Root: f.files, Arch: arch}
	f.Say("looking for %s in %d package repositories", e.Package, len(sources))
	failed := make([]error, len(sources))
	g := errgroup.Group{}
	g.SetLimit(parallel)
	for i := range sources {
		sources[i].NoValidUntil = sources[i].NoValidUntil || unchecked
		g.Go(func() error {
			one := o
			one.Sources = sources[i : i+1]
			_, failed[i] = apt.OpenReleases(ctx, one)
			return nil
		})
	}
	_ = g.Wait() // never an error: they are in failed
	for i, err := range failed {
		switch {
		case err == nil:
			o.Sources = append(o.Sources, sources[i])
			e.Looked = append(e.Looked, describe(sources[i]))
		case local(err), ctx.Err() != nil:
			return nil, err
		default:
			e.Failed = append(e.Failed, err.Error())
			f.Say("warning: left out: %v", err)
		}
	}
	if len(o.Sources) == 0 {
		e.Err = errors.New("none of them can be used")
		return nil, e
	}
	releases, err := apt.OpenReleases(ctx, o) // from the store: the servers are only asked whether it is still so
	if err != nil && !local(err) && ctx.Err() == nil {
		e.Err = err
		return nil, e
	}
	return releases, err
}

// split makes a source of every URI and suite, without those for other architectures.
func split(sources []apt.Source, arch string) []apt.Source {
	var out []apt.Source
	for _, s := range sources {
		if len(s.Architectures) > 0 && !slices.Contains(s.Architectures, arch) {
			continue
		}
		for _, uri := range s.URIs {
			for _, suite := range s.Suites {
				one := s
				one.URIs, one.Suites = []string{uri}, []string{suite}
				out = append(out, one)
			}
		}
	}
	return out
}

// describe is a source for people, without its login.
func describe(s apt.Source) string {
	uri := s.URIs[0]
	if u, err := url.Parse(uri); err == nil && u.User != nil {
		u.User = nil
		uri = u.String()
	}
	return strings.Join(append([]string{uri, s.Suites[0]}, s.Components...), " ")
}

// local tells whether an error is this machine's and not the repository's.
func local(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EROFS)
}
