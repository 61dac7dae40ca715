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
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// authorities is the file of certificate authorities of this machine, which the image gets: an image without
// it trusts no registry.
const authorities = "/etc/ssl/certs/ca-certificates.crt"

// image makes the image of driver-build for both architectures, by the code that makes driver images: no
// base, one layer, no shell.
func (m *maker) image(ctx context.Context) error {
	store, err := fetch.OpenStore(filepath.Join(m.work, "store"))
	if err != nil {
		return err
	}
	cache := layer.Cache{Store: store}
	var all []v1.Image
	for _, arch := range []string{"amd64", "arm64"} {
		img, err := m.imageFor(ctx, cache, arch)
		if err != nil {
			return fmt.Errorf("for %s: %w", arch, err)
		}
		all = append(all, img)
	}
	index, err := images.Combine(all)
	if err != nil {
		return err
	}
	return oci.WriteOCIArchive(ctx, filepath.Join(m.out, "driver-build-"+m.source.bare()+"-image.oci.tar"), "driver-build", m.source.bare(), index)
}

func (m *maker) imageFor(ctx context.Context, cache layer.Cache, arch string) (v1.Image, error) {
	spec := layer.Spec{Target: "driver-build " + arch, Name: "programs", Key: arch, Compression: recipe.Gzip, Time: m.source.time}
	l, err := cache.Make(ctx, spec, func(_ context.Context, spool *rootfs.Spool, _ *progress.Step) (*rootfs.Tree, error) {
		tree := rootfs.New(spool, nil)
		files := []member{{"usr/bin/driver-build", m.driverBuild(platform{"linux", arch}), 0o755}, {authorities[1:], authorities, 0o644}}
		for _, f := range m.forImages() {
			files = append(files, member{"usr/lib/driver-build/" + f.name, f.path, 0o755})
		}
		for _, f := range files {
			if err := addFile(tree, f); err != nil {
				return nil, err
			}
		}
		return tree, errors.Join(tree.AddDir("tmp", 0o777|os.ModeSticky), tree.AddDir("work", 0o777|os.ModeSticky), tree.AddDir("cache", 0o777|os.ModeSticky))
	})
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err = mutate.Append(img, mutate.Addendum{Layer: l, MediaType: types.OCILayer, History: v1.History{Created: v1.Time{Time: m.source.time}, CreatedBy: "driver-container release"}})
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Architecture, config.OS, config.Created = arch, "linux", v1.Time{Time: m.source.time}
	config.Config = v1.Config{
		Entrypoint: []string{"/usr/bin/driver-build"}, WorkingDir: "/work",
		Env: []string{"PATH=/usr/bin", "DRIVER_BUILD_CACHE=/cache"},
		Labels: map[string]string{
			recipe.OCIPrefix + "title": "driver-build", recipe.OCIPrefix + "version": m.source.bare(), recipe.OCIPrefix + "source": recipe.ProjectURL,
			recipe.OCIPrefix + "revision": m.source.commit,
		},
	}
	return mutate.ConfigFile(img, config)
}

func addFile(tree *rootfs.Tree, m member) (err error) {
	f, err := os.Open(m.file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return tree.AddFile(m.name, os.FileMode(m.mode), info.Size(), f)
}
