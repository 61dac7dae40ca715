package bundle

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/oci"
)

// inputsType is the artifact type of files: what images are built from at a site that builds the
// same digests itself (matrix, lock, packages, archives, programs), or a mirror. Each file is a
// layer with its path as the title, so that `oras pull` gives the files.
const inputsType = "application/vnd.driver-container.inputs.v1"

// fileType is the type of a layer that is a file, as oras has it.
const fileType types.MediaType = "application/octet-stream"

// fromFile reads a file's digest. Its content is read again when the bundle is written. The title
// is the file's name, and a program stays one, unless a title is given.
func fromFile(ctx context.Context, name, title string) (b oci.Blob, err error) {
	f, err := bounded.Open(name)
	if err != nil {
		return b, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return b, err
	}
	sum := sha256.New()
	size := int64(0)
	err = fetch.Copy(ctx, sum, f, func(n int64) { size = n })
	if err != nil {
		return b, fmt.Errorf("read %s: %w", name, err)
	}
	annotations := map[string]string{TitleAnnotation: cmp.Or(title, filepath.Base(name))}
	if title == "" && info.Mode()&0o111 != 0 {
		annotations[executableAnnotation] = "true"
	}
	b.Desc = v1.Descriptor{
		MediaType:   fileType,
		Digest:      v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum.Sum(nil))},
		Size:        size,
		Annotations: annotations,
	}
	b.Open = func() (io.ReadCloser, error) { return os.Open(name) }
	return b, nil
}

// filesArtifact makes the artifact of files, sorted by title.
func filesArtifact(files []oci.Blob) (*oci.Content, error) {
	title := func(b oci.Blob) string { return b.Desc.Annotations[TitleAnnotation] }
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b oci.Blob) int {
		return cmp.Or(cmp.Compare(title(a), title(b)), compareHash(a.Desc.Digest, b.Desc.Digest))
	})
	files = slices.CompactFunc(
		files,
		func(a, b oci.Blob) bool { return title(a) == title(b) && a.Desc.Digest == b.Desc.Digest },
	)
	var layers []v1.Descriptor
	for _, f := range files {
		layers = append(layers, f.Desc)
	}
	d, err := oci.NewManifest(
		v1.Manifest{ArtifactType: inputsType, Config: emptyConfig.Desc, Layers: layers},
	)
	return &oci.Content{Blobs: append(files, emptyConfig), Documents: []oci.Document{d}}, err
}

// Mirror returns the artifact of a partial mirror in a folder, for an origin.
func Mirror(ctx context.Context, origin, tag, dir string) (Artifact, error) {
	var files []oci.Blob
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		title, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		b, err := fromFile(ctx, name, filepath.ToSlash(title))
		files = append(files, b)
		return err
	})
	if err != nil {
		return Artifact{}, err
	}
	content, err := filesArtifact(files)
	return Artifact{
		Kind:       Headers,
		Repository: origin + "/headers",
		Tags:       []string{tag},
		Content:    content,
	}, err
}
