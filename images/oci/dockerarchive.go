package oci

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/distros/compression"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/strictjson"
)

// dockerEntries reads what `docker save` lists in manifest.json.
func (l LocalRef) dockerEntries() (files, tarball.Manifest, error) {
	f, err := openArchive(l.Path)
	if err != nil {
		return nil, nil, err
	}
	raw, err := f.read("manifest.json", MaxManifest)
	if err != nil {
		return nil, nil, fmt.Errorf("not an archive of docker save: %w", err)
	}
	entries, err := strictjson.Decode[tarball.Manifest](raw)
	if err != nil {
		return nil, nil, fmt.Errorf("manifest.json in %s is malformed: %w", l.Path, err)
	}
	return f, entries, nil
}

// docker returns a manifest for an image of a docker-archive, which such archives lack, and its
// blobs.
//
// It does not change layers. `docker save` writes them uncompressed, so the image has layers of
// type application/vnd.oci.image.layer.v1.tar, whose digests are their diff IDs. Compressing them
// here, as go-containerregistry's tarball.Image does, would make the base's digest depend on the
// version of a compressor; the price is that a push of such a base sends more bytes.
func (l LocalRef) docker(ctx context.Context) ([]byte, Blobs, error) {
	f, entries, err := l.dockerEntries()
	if err != nil {
		return nil, Blobs{}, err
	}
	f = f.required()
	e, err := dockerPick(entries, l.tag)
	if err != nil {
		return nil, Blobs{}, fmt.Errorf("%s: %w", l.Path, err)
	}
	config, err := f.read(e.Config, MaxConfig)
	if err != nil {
		return nil, Blobs{}, err
	}
	cf, err := strictjson.Decode[v1.ConfigFile](config)
	if err != nil {
		return nil, Blobs{}, fmt.Errorf("%s in %s is malformed: %w", e.Config, l.Path, err)
	}
	if len(cf.RootFS.DiffIDs) != len(e.Layers) {
		return nil, Blobs{}, malformed(
			"%s lists %d layers, its image config %d",
			l.Path,
			len(e.Layers),
			len(cf.RootFS.DiffIDs),
		)
	}
	doc := NewDocument(config, types.OCIConfigJSON)
	m := v1.Manifest{
		SchemaVersion: 2,
		MediaType:     types.OCIManifestSchema1,
		Config:        doc.Desc,
		Layers:        make([]v1.Descriptor, len(e.Layers)),
	}
	names := map[v1.Hash]string{doc.Desc.Digest: e.Config}
	for i, file := range e.Layers {
		m.Layers[i], err = f.dockerLayer(ctx, file, cf.RootFS.DiffIDs[i])
		if err != nil {
			return nil, Blobs{}, fmt.Errorf("%s in %s: %w", file, l.Path, err)
		}
		names[m.Layers[i].Digest] = file
	}
	raw, err := json.Marshal(m)
	return raw, Blobs{
		where: l.Path,
		open:  func(d v1.Descriptor) (io.ReadCloser, error) { return f(names[d.Digest]) },
	}, err
}

func dockerPick(entries tarball.Manifest, tag string) (found tarball.Descriptor, err error) {
	var tags []string
	for _, e := range entries {
		tags = append(tags, e.RepoTags...)
		if slices.ContainsFunc(e.RepoTags, func(t string) bool { return sameTag(t, tag) }) {
			return e, nil
		}
	}
	slices.Sort(tags)
	all := strings.Join(tags, ", ")
	switch {
	case tag != "":
		return found, absentf("it holds no image %s, only: %s", tag, all)
	case len(entries) != 1:
		return found, fmt.Errorf(
			"it holds %d images: name one by its tag, of: %s", len(entries), all,
		)
	}
	return entries[0], nil
}

// sameTag compares full names, so that debian:12 finds docker.io/library/debian:12.
func sameTag(have, want string) bool {
	h, err1 := name.NewTag(have)
	w, err2 := name.NewTag(want)
	return want != "" && (have == want || err1 == nil && err2 == nil && h.Name() == w.Name())
}

// dockerLayer describes a layer. An uncompressed one has its diff ID as digest. A compressed one,
// which crane and others write into such archives, is read once for its digest.
func (f files) dockerLayer(
	ctx context.Context,
	file string,
	diffID v1.Hash,
) (d v1.Descriptor, err error) {
	r, err := f(file)
	if err != nil {
		return d, err
	}
	defer r.Close()
	in := bufio.NewReader(r)
	kind, err := compression.Detect(in)
	if err != nil {
		return d, err
	}
	d.Digest = diffID
	d.MediaType = types.OCIUncompressedLayer
	if kind != "" {
		sum := sha256.New()
		err := fetch.Copy(ctx, sum, in, nil)
		if err != nil {
			return d, err
		}
		d.Digest.Hex = hex.EncodeToString(sum.Sum(nil))
		d.MediaType = compressedTypes[kind]
	}
	s, ok := r.(section)
	if ok {
		d.Size = s.Size()
	}
	return d, checkDescriptor(d)
}

var compressedTypes = map[string]types.MediaType{
	compression.Gzip: types.OCILayer, compression.Zstd: types.OCILayerZStd,
}
