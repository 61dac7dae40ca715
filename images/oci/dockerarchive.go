package oci

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/distros/fetch"
)

// dockerEntry is one image in the manifest.json that `docker save` writes.
type dockerEntry struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// docker unpacks an image of a docker-archive into the store and returns a manifest for it, which such
// archives lack.
//
// It does not change layers. `docker save` writes them uncompressed, so the image has layers of type
// application/vnd.oci.image.layer.v1.tar, whose digests are their diff IDs. Compressing them here would make
// the base's digest depend on the version of a compressor; the price is that a push of such a base sends more
// bytes.
func (a archive) docker(ctx context.Context, store *fetch.Store, tag string) (Manifest, error) {
	raw, err := a.Read("manifest.json", MaxManifest)
	if err != nil {
		return Manifest{}, fmt.Errorf("not an archive of docker save: %w", err)
	}
	var entries []dockerEntry
	if err := json.Unmarshal(raw, &entries); err != nil {
		return Manifest{}, fmt.Errorf("manifest.json in %s is malformed: %w", a.Path, err)
	}
	e, err := dockerPick(entries, tag)
	if err != nil {
		return Manifest{}, fmt.Errorf("%s: %w", a.Path, err)
	}
	config, err := a.Read(e.Config, MaxConfig)
	if err != nil {
		return Manifest{}, err
	}
	cf, err := v1.ParseConfigFile(bytes.NewReader(config))
	if err != nil {
		return Manifest{}, fmt.Errorf("%s in %s is malformed: %w", e.Config, a.Path, err)
	}
	if len(cf.RootFS.DiffIDs) != len(e.Layers) {
		return Manifest{}, fmt.Errorf("%s lists %d layers, its image config %d", a.Path, len(e.Layers), len(cf.RootFS.DiffIDs))
	}
	m := v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1,
		Config: v1.Descriptor{MediaType: types.OCIConfigJSON, Size: int64(len(config)), Digest: HashOf(config)},
		Layers: make([]v1.Descriptor, len(e.Layers)),
	}
	for i, file := range e.Layers {
		if m.Layers[i], err = a.dockerLayer(ctx, store, file, cf.RootFS.DiffIDs[i]); err != nil {
			return Manifest{}, err
		}
	}
	manifest, err := json.Marshal(m)
	if err != nil {
		return Manifest{}, err
	}
	return Manifest{manifest, HashOf(manifest)}, errors.Join(StoreDocument(store, config), StoreDocument(store, manifest))
}

// HashOf returns the sha256 of b.
func HashOf(b []byte) v1.Hash {
	sum := sha256.Sum256(b)
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}
}

func dockerPick(entries []dockerEntry, tag string) (dockerEntry, error) {
	var tags []string
	for _, e := range entries {
		tags = append(tags, e.RepoTags...)
		if slices.ContainsFunc(e.RepoTags, func(t string) bool { return sameTag(t, tag) }) {
			return e, nil
		}
	}
	slices.Sort(tags)
	switch {
	case tag != "":
		return dockerEntry{}, fmt.Errorf("it holds no image %s, only: %s: %w", tag, strings.Join(tags, ", "), fs.ErrNotExist)
	case len(entries) != 1:
		return dockerEntry{}, fmt.Errorf("it holds %d images: name one by its tag, of: %s", len(entries), strings.Join(tags, ", "))
	}
	return entries[0], nil
}

// sameTag compares full names, so that debian:12 finds docker.io/library/debian:12.
func sameTag(have, want string) bool {
	if want == "" || have == want {
		return want != ""
	}
	h, err1 := name.NewTag(have)
	w, err2 := name.NewTag(want)
	return err1 == nil && err2 == nil && h.Name() == w.Name()
}

// dockerLayer copies a layer into the store and checks it against its diff ID.
func (a archive) dockerLayer(ctx context.Context, store *fetch.Store, file string, diffID v1.Hash) (v1.Descriptor, error) {
	packed, size, err := a.compression(file)
	if err != nil {
		return v1.Descriptor{}, err
	}
	if packed != "" {
		return a.packedLayer(ctx, store, file, diffID, packed)
	}
	if diffID.Algorithm != "sha256" {
		return v1.Descriptor{}, fmt.Errorf("%s: only sha256 is supported", diffID)
	}
	if !store.Has(diffID.Hex) {
		if err := a.unpack(ctx, store, file, diffID); err != nil {
			return v1.Descriptor{}, err
		}
	}
	return v1.Descriptor{MediaType: types.OCIUncompressedLayer, Size: size, Digest: diffID}, nil
}

// compression returns the media type of a compressed layer, "" for an uncompressed one.
func (a archive) compression(file string) (t types.MediaType, size int64, err error) {
	r, size, err := a.Member(file)
	if err != nil {
		return "", 0, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	magic := make([]byte, 4)
	if _, err := io.ReadFull(r, magic); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return "", 0, err
	}
	switch {
	case bytes.HasPrefix(magic, gzipMagic):
		t = types.OCILayer
	case bytes.HasPrefix(magic, zstdMagic):
		t = types.OCILayerZStd
	}
	return t, size, nil
}

// packedLayer copies a compressed layer, which crane and others write into such archives, and unpacks it once
// to compute its diff ID.
func (a archive) packedLayer(ctx context.Context, store *fetch.Store, file string, diffID v1.Hash, t types.MediaType) (d v1.Descriptor, err error) {
	r, _, err := a.Member(file)
	if err != nil {
		return d, err
	}
	w, err := store.Create()
	if err != nil {
		return d, errors.Join(err, r.Close())
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	tee := struct {
		io.Reader
		io.Closer
	}{io.TeeReader(r, w), r}
	plain, err := decompress(tee)
	if err != nil {
		return d, errors.Join(fmt.Errorf("%s in %s: %w", file, a.Path, err), r.Close())
	}
	sum := sha256.New()
	err = fetch.Copy(ctx, sum, plain, nil)
	if err = errors.Join(err, plain.Close()); err != nil {
		return d, fmt.Errorf("%s in %s: %w", file, a.Path, err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != diffID.Hex {
		return d, &fetch.MismatchError{URL: file + " in " + a.Path + " (unpacked)", Want: diffID.Hex, Got: got}
	}
	digest, size, err := w.Commit()
	return v1.Descriptor{MediaType: t, Size: size, Digest: v1.Hash{Algorithm: "sha256", Hex: digest}}, err
}

// StoreDocument writes a document into the store.
func StoreDocument(store *fetch.Store, raw []byte) (err error) {
	w, err := store.Create()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	if _, err := w.Write(raw); err != nil {
		return err
	}
	_, _, err = w.Commit()
	return err
}
