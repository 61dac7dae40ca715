package attestation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/documents"
	"github.com/driver-container/driver-container/images/imagename"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/outfile"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/signature"
	"github.com/driver-container/driver-container/images/strictjson"
)

// Finished is a finished image or index, with what it has.
type Finished struct {
	Digest     v1.Hash
	Tag        string   // in the reference; "": it has none
	Repository string   // REGISTRY/PATH; "": it is on this machine
	Tags       []string // of its reference in a registry, or all that it has on this machine
	Artifact   oci.Artifact
	Have       []oci.Attachment

	ref      string
	subjects []signature.Subject // the artifact, which comes first, and the images in it
}

// Open reads what a reference names. It must be in a registry, an OCI layout or an OCI archive.
func Open(ctx context.Context, c *registry.Client, ref string) (i *Finished, err error) {
	opened, err := c.Open(ctx, ref, registry.OpenOptions{})
	if err != nil {
		return nil, err
	}
	i = &Finished{ref: ref, Artifact: opened.Artifact, Digest: opened.Digest}
	if local, ok := oci.ParseLocal(ref); ok {
		i.Tag = local.Tag()
		tags, digests, err := oci.LocalTags(ref)
		if err != nil {
			return nil, err
		}
		for n, tag := range tags {
			if digests[n] == i.Digest && imagename.CheckTag(tag) == nil &&
				!slices.Contains(i.Tags, tag) {
				i.Tags = append(i.Tags, tag)
			}
		}
	} else {
		repository, tag, _, err := imagename.Parse(ref)
		if err != nil {
			return nil, err
		}
		i.Repository = repository.Name()
		i.ref = i.Repository + "@" + i.Digest.String() // the tag may move
		if tag != "" {
			i.Tag = tag
			i.Tags = []string{tag}
		}
	}
	i.Have, err = c.Attachments(ctx, i.ref)
	if err != nil {
		return nil, err
	}
	i.subjects, err = subjects(i.Artifact, i.Have)
	return i, err
}

// Attach adds attachments to the image where it is. An archive is written again.
func (i *Finished) Attach(ctx context.Context, c *registry.Client, all []oci.Attachment) (err error) {
	if len(all) == 0 {
		return nil
	}
	local, ok := oci.ParseLocal(i.ref)
	switch {
	case !ok:
		_, err := c.Attach(ctx, i.ref, all...)
		return err
	case strings.HasPrefix(i.ref, "oci:"):
		return oci.WriteLayout(ctx, local.Path, "", nil, all...)
	case strings.HasPrefix(i.ref, "docker-archive:"):
		return failure.Errorf(
			failure.Usage,
			"%s: a docker-archive has no place for signatures and documents: push the image, or build an oci-archive",
			i.ref,
		)
	}
	unlock, err := outfile.LockFolder(ctx, filepath.Dir(local.Path))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	now, err := Open(ctx, c, i.ref) // another signer may have written it meanwhile
	if err != nil {
		return err
	}
	if now.Digest != i.Digest {
		return fmt.Errorf(
			"%s: another program replaced the image while it was signed: try again",
			i.ref,
		)
	}
	tags, _, err := oci.LocalTags(i.ref)
	if err != nil {
		return err
	}
	if len(tags) != 1 {
		return failure.Errorf(
			failure.Usage,
			"%s: it holds %d images, and an archive is written anew with one: unpack it with tar, and name it as oci:DIR:TAG",
			i.ref,
			len(tags),
		)
	}
	repository, err := oci.LocalRepository(local)
	if err != nil {
		return err
	}
	return oci.WriteOCIArchive(
		ctx,
		local.Path,
		repository,
		tags[0],
		now.Artifact,
		append(now.Have, all...)...)
}

// For returns the plan for an image: signatures state repository, or else that of the image, with
// the tags of the image and further ones. The documents are about the images for archs, or, if
// there are none, about the index and all images in it.
func (p Publication) For(i *Finished, repository string, tags, archs []string) (Publication, error) {
	p.Repository = cmp.Or(repository, i.Repository)
	p.Tags = slices.Clone(i.Tags)
	for _, tag := range tags {
		if !slices.Contains(p.Tags, tag) {
			p.Tags = append(p.Tags, tag)
		}
	}
	if len(archs) == 0 {
		return p, nil
	}
	about, err := i.images(archs)
	p.Documents = slices.Clone(p.Documents)
	for n := range p.Documents {
		p.Documents[n].Subjects = about
	}
	return p, err
}

// images returns the digests of the images in an index that are for archs.
func (i *Finished) images(archs []string) (found []v1.Hash, err error) {
	raw, err := i.Artifact.RawManifest()
	if err != nil {
		return nil, err
	}
	index, err := strictjson.Decode[v1.IndexManifest](raw)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", i.ref, err)
	}
	for _, arch := range archs {
		n := slices.IndexFunc(index.Manifests, func(d v1.Descriptor) bool {
			return d.Platform != nil && d.Platform.OS == "linux" && d.Platform.Architecture == arch
		})
		if n < 0 {
			return nil, failure.Errorf(
				failure.Usage,
				"--arch %s: %s is no index with an image for it",
				arch,
				i.ref,
			)
		}
		found = append(found, index.Manifests[n].Digest)
	}
	return found, nil
}

// CheckVEX checks documents of OpenVEX: each statement must be about the image or a package in it.
// The image is read only if a statement names a package.
func (p Publication) CheckVEX(ctx context.Context, c *registry.Client, cache layer.Cache, i *Finished) error {
	var digests []string
	for _, s := range i.subjects {
		digests = append(digests, s.Descriptor.Digest.String())
	}
	for _, d := range p.Documents {
		if d.Type != documents.VEXType {
			continue
		}
		alone := documents.CheckVEX(d.Body, digests, nil)
		if alone == nil {
			continue
		}
		m, err := documents.OpenImages(ctx, c, cache, i.ref, "")
		if err != nil { // not all images are of this project
			return fmt.Errorf("%w; the packages of the image are not known: %w", alone, err)
		}
		err = documents.CheckVEX(d.Body, digests, m.Packages())
		if err != nil {
			return err
		}
	}
	return nil
}
