package bundle

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/registry"
)

// RecordHeaders returns a mirror with what nodes with the selected images download to compile for the
// kernels of s.Headers. dir is an empty folder for it, which stays until the bundle is written. A
// kernel that no image has headers of is an error.
//
// The builder's store is not used: what it has would not be asked for, and so not recorded.
func RecordHeaders(
	ctx context.Context,
	builder *images.Builder,
	s Selection,
	artifacts []Artifact,
	dir string,
) (none Artifact, err error) {
	mirror := filepath.Join(dir, "mirror")
	err = os.Mkdir(mirror, 0o700)
	if err != nil {
		return none, err
	}
	client := *builder.Fetch
	client.Store, err = fetch.OpenStore(filepath.Join(dir, "store"))
	if err != nil {
		return none, err
	}
	plain := http.Client{}
	if client.HTTP != nil {
		plain = *client.HTTP
	}
	plain.Transport = &Recorder{Dir: mirror, Next: plain.Transport}
	client.HTTP = &plain
	var found []string
	for _, ref := range s.compiling(artifacts) {
		for _, arch := range matrix.Archs() {
			releases, err := fetchHeaders(ctx, builder, ref, arch, s.Headers, &client)
			if err != nil {
				return none, err
			}
			found = append(found, releases...)
		}
	}
	for _, release := range s.Headers {
		if !slices.Contains(found, release) {
			return none, failure.Errorf(
				failure.Usage,
				"no image that compiles has repositories with the headers of kernel %s; driver-build kernels lists those that there are",
				release,
			)
		}
	}
	return Mirror(ctx, s.Origin, s.FileTag, mirror)
}

// compiling are the references of the images that may compile on a node: those that are named, else
// all that were gathered.
func (s *Selection) compiling(artifacts []Artifact) []string {
	refs := s.Images
	if len(refs) > 0 {
		return refs
	}
	for _, a := range artifacts {
		if a.Kind == Image {
			refs = append(refs, a.Repository+"@"+a.Content.Top().Desc.Digest.String())
		}
	}
	return refs
}

// fetchHeaders downloads the headers for an image of an architecture, and returns the kernels that it
// has found. An image of other architectures, or one that does not compile, has none.
func fetchHeaders(
	ctx context.Context,
	builder *images.Builder,
	ref, arch string,
	releases []string,
	client *fetch.Client,
) ([]string, error) {
	options := registry.OpenOptions{Arch: arch, Part: registry.Layers}
	img, err := builder.Registry.Open(ctx, ref, options)
	_, other := errors.AsType[*oci.PlatformError](err)
	if other {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	found, err := builder.FetchHeaders(ctx, ref, img, releases, client)
	if errors.Is(err, images.ErrNotCompiling) {
		return found, nil
	}
	return found, err
}
