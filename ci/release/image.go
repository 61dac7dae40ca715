package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/recipe"
)

// authorities is the file of certificate authorities of this machine, which the image gets: an
// image without it trusts no registry.
const authorities = "/etc/ssl/certs/ca-certificates.crt"

// image makes the image of driver-build for both architectures: no base, one layer, no shell.
func (m *maker) image(ctx context.Context) error {
	var all []v1.Image
	for _, arch := range []string{"amd64", "arm64"} {
		img, err := m.imageFor(ctx, arch)
		if err != nil {
			return fmt.Errorf("for %s: %w", arch, err)
		}
		all = append(all, img)
	}
	index, err := images.Combine(all)
	if err != nil {
		return err
	}
	return oci.WriteOCIArchive(
		ctx,
		filepath.Join(m.out, "driver-build-"+m.source.bare()+"-image.oci.tar"),
		"driver-build",
		m.source.bare(),
		index,
	)
}

func (m *maker) imageFor(ctx context.Context, arch string) (v1.Image, error) {
	root := filepath.Join(m.work, "image-"+arch)
	members := append(
		m.programsOf(platform{"linux", arch}, "usr/bin", "usr/lib/driver-build"),
		member{authorities, authorities, 0o644},
	)
	if err := stage(root, members); err != nil {
		return nil, err
	}
	for _, name := range []string{"tmp", "work", "cache"} {
		dir := filepath.Join(root, name)
		if err := errors.Join(os.Mkdir(dir, 0o755), os.Chmod(dir, 0o777|os.ModeSticky)); err != nil {
			return nil, err
		}
	}
	if err := pack(ctx, m.source, root, root+".tar.gz", "etc", "usr", "tmp", "work", "cache"); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromFile(root+".tar.gz", tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	at := v1.Time{Time: m.source.time}
	img := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	img = mutate.ConfigMediaType(img, types.OCIConfigJSON)
	img, err = mutate.ConfigFile(img, &v1.ConfigFile{
		Architecture: arch, OS: "linux", Created: at, RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			Entrypoint: []string{"/usr/bin/driver-build"}, WorkingDir: "/work",
			Env: []string{"PATH=/usr/bin", "DRIVER_BUILD_CACHE=/cache"},
			Labels: map[string]string{
				recipe.OCIPrefix + "title": "driver-build", recipe.OCIPrefix + "version": m.source.bare(),
				recipe.OCIPrefix + "source":   recipe.ProjectURL,
				recipe.OCIPrefix + "revision": m.source.commit,
			},
		},
	})
	if err != nil {
		return nil, err
	}
	made := v1.History{Created: at, CreatedBy: "driver-container release"}
	return mutate.Append(img, mutate.Addendum{Layer: layer, History: made})
}
