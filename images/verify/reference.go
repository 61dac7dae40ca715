package verify

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/imagename"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/registry"
)

// VerifyReference is Verify of what a reference names, as [registry.Client.Open] takes it: an image,
// every image of an index, or its image for arch. An image that lacks layers is a finding.
func (e Examiner) VerifyReference(
	ctx context.Context,
	client *registry.Client,
	ref, arch string,
	o Options,
) ([]Finding, error) {
	opened, err := client.Open(ctx, ref, registry.OpenOptions{})
	if err != nil {
		return nil, err
	}
	entries, open, err := oci.OpenIndex(opened.Artifact)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", ref, err)
	}
	if open == nil || arch != "" {
		img, err := openArch(ctx, client, ref, arch)
		if errors.Is(err, fs.ErrNotExist) {
			return []Finding{NewFinding(Error, "layers", "", "the image is not whole: %v", err)}, nil
		}
		if err != nil {
			return nil, err
		}
		return e.Verify(ctx, ref, img, o)
	}
	if !oci.IsLocal(ref) {
		repository, _, _, err := imagename.Parse(ref)
		if err != nil {
			return nil, err
		}
		open = func(d v1.Descriptor) (v1.Image, error) {
			entry := repository.Name() + "@" + d.Digest.String()
			img, err := openArch(ctx, client, entry, d.Platform.Architecture)
			_, isOther := errors.AsType[*oci.PlatformError](err)
			if isOther { // than the entry says: it is content, and wrong
				err = failure.New(failure.Content, err.Error())
			}
			return img, err
		}
	}
	return e.VerifyIndex(ctx, ref, entries, open, o)
}

// openArch opens the image of a reference for an architecture, with its layers. "" is the only one
// that there is.
func openArch(ctx context.Context, client *registry.Client, ref, arch string) (v1.Image, error) {
	archs := []string{arch}
	if arch == "" {
		archs = matrix.Archs()
	}
	var other error
	for _, name := range archs {
		options := registry.OpenOptions{Arch: name, Part: registry.Layers}
		opened, err := client.Open(ctx, ref, options)
		if err == nil {
			return opened.Image, nil
		}
		_, isOther := errors.AsType[*oci.PlatformError](err)
		if !isOther {
			return nil, err
		}
		other = err
	}
	return nil, other
}
