package oci

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/outfile"
)

// ErrNotForDocker says that an artifact cannot be written as a docker-archive. The text says why
// and what to do.
var ErrNotForDocker = errors.New("a docker-archive cannot hold it")

// WriteOCIArchive writes an artifact as a tar of an OCI layout with one entry, and its attachments
// as entries without a name. The entry has the tag, which skopeo, crane and oras read, and the full
// name, which containerd gives to the image; without a tag it has no name. The same input gives the same bytes. It is written by
// the rule of package outfile: a file appears when it is complete; after an error, or when ctx
// ends, nothing is left.
func WriteOCIArchive(
	ctx context.Context,
	file, repository, tag string,
	t Artifact,
	attachments ...Attachment,
) (err error) {
	defer failure.Wrap(&err, "write OCI archive %s", file)
	full := ""
	if tag != "" {
		named, err := newTag(repository + ":" + tag)
		if err != nil {
			return err
		}
		full = strings.Replace(named.Name(), name.DefaultRegistry+"/", "docker.io/", 1)
	}
	g := newGraph()
	err = g.add(t, tag, full)
	if err != nil {
		return err
	}
	err = g.attach(attachments)
	if err != nil {
		return err
	}
	index, err := g.rawIndex()
	if err != nil {
		return err
	}
	members := map[string]Blob{
		"index.json": BytesBlob("", index, nil),
		"oci-layout": BytesBlob("", []byte(LayoutVersion), nil),
	}
	for h, b := range g.blobs {
		members["blobs/sha256/"+h.Hex] = b
	}
	return writeTar(ctx, file, members)
}

func newTag(ref string) (name.Tag, error) {
	tag, err := name.NewTag(ref)
	if err != nil {
		return tag, fmt.Errorf("%q is not repository:tag: %w", ref, err)
	}
	return tag, nil
}

// WriteDockerArchive writes an image as `docker save` does, for `docker load`. ref (repository:tag)
// is the name that the image gets there. It accepts an index with one image. Layers must be gzip or
// uncompressed, because docker does not load others from such archives. For other layers and for
// several images the error is ErrNotForDocker.
//
// Package tarball of go-containerregistry writes the same format, but does not verify what it
// writes, and does not end with ctx.
func WriteDockerArchive(ctx context.Context, file, ref string, t Artifact) (err error) {
	defer failure.Wrap(&err, "write docker-archive %s", file)
	tag, err := newTag(ref)
	if err != nil {
		return err
	}
	all, err := Collect(t)
	if err != nil {
		return err
	}
	if len(all.images) != 1 {
		return fmt.Errorf(
			"%w: it takes one image, this index has %d; name one architecture, or write an oci-archive",
			ErrNotForDocker, len(all.images),
		)
	}
	m, err := parseGeneric(all.images[0].Raw)
	if err != nil {
		return err
	}
	// The name as docker shows it: without docker's own registry.
	shown := strings.TrimPrefix(tag.Name(), name.DefaultRegistry+"/")
	e := tarball.Descriptor{
		Config:   m.Config.Digest.Hex + ".json",
		RepoTags: []string{strings.TrimPrefix(shown, "library/")},
		Layers:   []string{},
	}
	members := map[string]Blob{}
	for _, b := range all.Blobs {
		if b.Desc.MediaType == types.OCILayerZStd {
			return fmt.Errorf(
				"%w: layer %s is zstd; build with --compression gzip, or write an oci-archive",
				ErrNotForDocker, b.Desc.Digest,
			)
		}
		members[dockerMember(b.Desc)] = b
	}
	for _, d := range m.Layers {
		e.Layers = append(e.Layers, dockerMember(d))
	}
	raw, err := json.Marshal(tarball.Manifest{e})
	if err != nil {
		return err
	}
	members["manifest.json"] = BytesBlob("", raw, nil)
	return writeTar(ctx, file, members)
}

func dockerMember(d v1.Descriptor) string {
	switch d.MediaType {
	case types.OCIConfigJSON, types.DockerConfigJSON:
		return d.Digest.Hex + ".json"
	case types.OCIUncompressedLayer, types.DockerUncompressedLayer:
		return d.Digest.Hex + ".tar"
	}
	return d.Digest.Hex + ".tar.gz"
}

// writeTar writes members sorted by name.
func writeTar(ctx context.Context, file string, members map[string]Blob) error {
	var all []Member
	for _, name := range slices.Sorted(maps.Keys(members)) {
		all = append(all, Member{name, members[name]})
	}
	return outfile.Write(ctx, file, func(w io.Writer) error { return WriteTar(ctx, w, all, nil) })
}
