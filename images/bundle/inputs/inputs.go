// Package inputs makes one artifact of files: what images are built from at a site that builds the same
// digests itself (matrix, lock, packages, archives, programs). Each file is a layer with its name as the
// title, so that `oras pull` gives the files. Adopt puts them into the cache that a build reads.
package inputs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/oci"
)

// MediaType is the artifact type of the inputs.
const MediaType = "application/vnd.driver-container.inputs.v1"

// fileType is the type of a layer that is a file, as oras has it.
const fileType types.MediaType = "application/octet-stream"

// FromFile reads a file's digest. Its content is read again when the bundle is written.
func FromFile(ctx context.Context, name string) (_ oci.Blob, err error) {
	f, err := bounded.Open(name)
	if err != nil {
		return oci.Blob{}, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return oci.Blob{}, err
	}
	sum, size := sha256.New(), int64(0)
	if err := fetch.Copy(ctx, sum, f, func(n int64) { size = n }); err != nil {
		return oci.Blob{}, fmt.Errorf("read %s: %w", name, err)
	}
	h := v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum.Sum(nil))}
	d := v1.Descriptor{MediaType: fileType, Digest: h, Size: size, Annotations: map[string]string{bundle.TitleAnnotation: filepath.Base(name)}}
	if info.Mode()&0o111 != 0 {
		d.Annotations[bundle.ExecutableAnnotation] = "true"
	}
	return oci.Blob{Desc: d, Open: func() (io.ReadCloser, error) { return os.Open(name) }}, nil
}

// Artifact makes the artifact of files, sorted by title.
func Artifact(files []oci.Blob) (*oci.Content, error) {
	title := func(b oci.Blob) string { return b.Desc.Annotations[bundle.TitleAnnotation] }
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b oci.Blob) int {
		return cmp.Or(cmp.Compare(title(a), title(b)), cmp.Compare(a.Desc.Digest.Hex, b.Desc.Digest.Hex))
	})
	files = slices.CompactFunc(files, func(a, b oci.Blob) bool { return title(a) == title(b) && a.Desc.Digest == b.Desc.Digest })
	m := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, ArtifactType: MediaType, Config: bundle.EmptyConfig().Desc}
	for _, f := range files {
		m.Layers = append(m.Layers, f.Desc)
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	d := oci.Document{Raw: raw, Desc: v1.Descriptor{
		MediaType: types.OCIManifestSchema1, Size: int64(len(raw)), Digest: oci.HashOf(raw), ArtifactType: MediaType}}
	return &oci.Content{Blobs: append(files, bundle.EmptyConfig()), Documents: []oci.Document{d}}, nil
}
