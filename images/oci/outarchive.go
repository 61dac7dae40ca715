package oci

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/images/outfile"
)

// ErrNotForDocker says that an artifact cannot be written as a docker-archive. The text says why and what to
// do.
var ErrNotForDocker = errors.New("a docker-archive cannot hold it")

// WriteOCIArchive writes an artifact as a tar of an OCI layout with one entry, and its attachments as entries
// without a name. The entry has the tag, which skopeo, crane and oras read, and the full name, which containerd
// gives to the image. The same input gives the same bytes. It is written by the rule of package outfile: a
// file appears when it is complete; after an error, or when ctx ends, nothing is left.
func WriteOCIArchive(ctx context.Context, file, repository, tag string, t Artifact, attachments ...Attachment) error {
	fail := func(err error) error { return fmt.Errorf("write OCI archive %s: %w", file, err) }
	all, err := Collect(t)
	if err != nil {
		return fail(err)
	}
	entry, err := all.entry()
	if err != nil {
		return fail(err)
	}
	full, err := name.NewTag(repository + ":" + tag)
	if err != nil {
		return fail(fmt.Errorf("%q is not repository:tag: %w", repository+":"+tag, err))
	}
	index := withEntry(&v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex}, entry, tag)
	index.Manifests[0].Annotations[containerdNameAnnotation] = strings.Replace(full.Name(), name.DefaultRegistry+"/", "docker.io/", 1)
	index, attachments, err = withAttachments(index, Blobs{}, attachments)
	if err != nil {
		return fail(err)
	}
	raw, err := json.Marshal(index)
	if err != nil {
		return fail(err)
	}
	all = all.with(attachments)
	files := []tarFile{inline("index.json", raw), inline("oci-layout", []byte(layoutVersion))}
	for _, b := range all.Blobs {
		files = append(files, tarFile{"blobs/sha256/" + b.Desc.Digest.Hex, b})
	}
	for _, d := range all.Documents {
		files = append(files, tarFile{"blobs/sha256/" + d.Desc.Digest.Hex, d.blob()})
	}
	if err := writeTar(ctx, file, files); err != nil {
		return fail(err)
	}
	return nil
}

// WriteDockerArchive writes an image as `docker save` does, for `docker load`. ref (repository:tag) is the
// name that the image gets there. It accepts an index with one image. Layers must be gzip or uncompressed,
// because docker does not load others from such archives. For other layers and for several images the error
// is ErrNotForDocker.
func WriteDockerArchive(ctx context.Context, file, ref string, t Artifact) error {
	fail := func(err error) error { return fmt.Errorf("write docker-archive %s: %w", file, err) }
	tag, err := name.NewTag(ref)
	if err != nil {
		return fail(fmt.Errorf("%q is not repository:tag: %w", ref, err))
	}
	all, err := Collect(t)
	if err != nil {
		return fail(err)
	}
	if len(all.images) != 1 {
		return fail(fmt.Errorf("%w: it takes one image, this index has %d; name one architecture, or write an oci-archive", ErrNotForDocker, len(all.images)))
	}
	m, err := v1.ParseManifest(bytes.NewReader(all.images[0].Raw))
	if err != nil {
		return fail(err)
	}
	e := dockerEntry{Config: m.Config.Digest.Hex + ".json", RepoTags: []string{dockerName(tag)}, Layers: []string{}}
	files := []tarFile{}
	for _, b := range all.Blobs {
		switch {
		case b.Desc.Digest == m.Config.Digest:
			files = append(files, tarFile{e.Config, b})
		case b.Desc.MediaType == types.OCILayerZStd:
			return fail(fmt.Errorf("%w: layer %s is zstd; build with --compression gzip, or write an oci-archive", ErrNotForDocker, b.Desc.Digest))
		default:
			files = append(files, tarFile{layerFile(b.Desc), b})
		}
	}
	for _, d := range m.Layers {
		e.Layers = append(e.Layers, layerFile(d))
	}
	raw, err := json.Marshal([]dockerEntry{e})
	if err != nil {
		return fail(err)
	}
	if err := writeTar(ctx, file, append(files, inline("manifest.json", raw))); err != nil {
		return fail(err)
	}
	return nil
}

func layerFile(d v1.Descriptor) string {
	if d.MediaType == types.OCIUncompressedLayer || d.MediaType == types.DockerUncompressedLayer {
		return d.Digest.Hex + ".tar"
	}
	return d.Digest.Hex + ".tar.gz"
}

// dockerName returns the name as docker shows it: without docker's own registry.
func dockerName(t name.Tag) string {
	s := strings.TrimPrefix(t.Name(), name.DefaultRegistry+"/")
	return strings.TrimPrefix(s, "library/")
}

// tarFile is a member of an archive to write.
type tarFile struct {
	name string
	Blob
}

func inline(name string, raw []byte) tarFile {
	d := Document{Raw: raw, Desc: v1.Descriptor{Size: int64(len(raw)), Digest: HashOf(raw)}}
	return tarFile{name, d.blob()}
}

// writeTar writes members sorted by name, all with the same time, owner and mode.
func writeTar(ctx context.Context, file string, members []tarFile) error {
	slices.SortFunc(members, func(a, b tarFile) int { return strings.Compare(a.name, b.name) })
	return outfile.Write(ctx, file, func(w io.Writer) error {
		tw := tar.NewWriter(w)
		for _, m := range members {
			if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: m.name, Size: m.Desc.Size, Mode: 0o644}); err != nil {
				return err
			}
			if err := m.copy(ctx, nil, tw); err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
		}
		return tw.Close()
	})
}
