package bundlecmd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/workdir"
)

// mirror returns the mirror of --headers, which stays until the command ends. It is recorded while
// what nodes with the images would ask is asked, with an empty store, so that nothing is asked
// halfway.
func (o *createFlags) mirror(
	ctx context.Context,
	a *session.App,
	s *session.Session,
	artifacts []bundle.Artifact,
) (none bundle.Artifact, err error) {
	const prefix = "headers-"
	if err := workdir.Sweep(s.Builder.Store.Dir(), prefix); err != nil {
		return none, fmt.Errorf("remove what a killed call left: %w", err)
	}
	dir, err := workdir.New(s.Builder.Store.Dir(), prefix)
	if err != nil {
		return none, err
	}
	a.Defer(dir.Remove)
	mirror := filepath.Join(dir.Path, "mirror")
	empty := filepath.Join(dir.Path, "store")
	if err := os.Mkdir(mirror, 0o700); err != nil {
		return none, err
	}
	store, err := fetch.OpenStore(empty)
	if err != nil {
		return none, err
	}
	client := *s.Builder.Fetch
	plain := http.Client{}
	if s.Builder.Fetch.HTTP != nil {
		plain = *s.Builder.Fetch.HTTP
	}
	plain.Transport = &bundle.Recorder{Dir: mirror, Next: plain.Transport}
	client.Store = store
	client.HTTP = &plain
	found, err := o.headersOf(ctx, s, &client, artifacts)
	if err != nil {
		return none, err
	}
	for _, release := range o.headers {
		if !slices.Contains(found, release) {
			return none, session.Usagef(
				"no image that compiles has repositories with the headers of kernel %s; driver-build kernels lists those that there are",
				release,
			)
		}
	}
	return bundle.Mirror(ctx, o.Origin, o.FileTag, mirror)
}

// headersOf downloads the headers for all images, and returns the kernels that it has found.
func (o *createFlags) headersOf(
	ctx context.Context,
	s *session.Session,
	client *fetch.Client,
	artifacts []bundle.Artifact,
) (found []string, err error) {
	refs := o.Images
	if len(refs) == 0 {
		for _, a := range artifacts {
			if a.Kind == bundle.Image {
				refs = append(refs, a.Repository+"@"+a.Content.Top().Desc.Digest.String())
			}
		}
	}
	for _, ref := range refs {
		for _, arch := range matrix.Archs() {
			base, err := s.Builder.Registry.Open(
				ctx,
				ref,
				registry.OpenOptions{Arch: arch, Part: registry.Layers},
			)
			if _, other := errors.AsType[*oci.PlatformError](err); other {
				continue
			}
			if err != nil {
				return nil, err
			}
			some, err := s.Builder.FetchHeaders(ctx, ref, base, o.headers, client)
			if err != nil && !errors.Is(err, images.ErrNotCompiling) {
				return nil, err
			}
			found = append(found, some...)
		}
	}
	return found, nil
}
