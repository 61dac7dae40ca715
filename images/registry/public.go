package registry

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/strictjson"
)

// publicRegistries are those on which repositories are public unless the owner does something about
// it, or on which all are. Images with a driver for vGPU guests do not go there: its licence
// forbids it. Whether a repository of such a registry is private, or one of another registry
// public, cannot be seen from outside.
var publicRegistries = []string{
	"index.docker.io", "registry-1.docker.io", "registry.hub.docker.com", "ghcr.io", "quay.io", "public.ecr.aws",
	"registry.gitlab.com", "nvcr.io", "mcr.microsoft.com", "registry.k8s.io", "codeberg.org", "gitea.com", "ttl.sh",
}

// CheckPublic returns an error if an image of that licence must not go to a repository. licence is
// "" for images that may go everywhere, and repository may be "".
func CheckPublic(what, licence, repository string) error {
	if licence == "" || repository == "" || !public(repository) {
		return nil
	}
	return failure.Errorf(
		failure.Usage,
		"%s has a driver for vGPU guests (licence: %s), and the registry of %s is a public one: "+
			"to upload such a driver to a publicly available repository violates NVIDIA's vGPU EULA. Use a private registry; "+
			"if this repository is private, say so with --allow-public-registry",
		what,
		licence,
		repository,
	)
}

// public reports whether the registry of a repository or an image is a public one. Names are
// completed as the registries' clients complete them: "me/driver" is on Docker Hub.
func public(repository string) bool {
	r, err := name.ParseReference(repository, name.WeakValidation)
	if err != nil {
		return false // refused elsewhere
	}
	host, _, _ := strings.Cut(r.Context().RegistryStr(), ":")
	return slices.Contains(publicRegistries, strings.ToLower(strings.TrimSuffix(host, ".")))
}

// CheckPublicArtifact is CheckPublic of an image, or of all images of an index. It reads the
// artifact only if the registry is a public one.
func CheckPublicArtifact(what, repository string, open func() (oci.Artifact, error)) error {
	if !public(repository) {
		return nil
	}
	a, err := open()
	if err != nil {
		return err
	}
	licence, err := artifactLicence(a)
	if err != nil {
		return fmt.Errorf("read whose licence %s needs: %w", what, err)
	}
	return CheckPublic(what, licence, repository)
}

// CheckPublicDocument is CheckPublic of a manifest or an index as it is written, for a repository.
func CheckPublicDocument(repository string, document []byte) error {
	return CheckPublic(repository, annotated(document), repository)
}

// annotated returns the licence that the annotations of a manifest or an index name, "" for none.
func annotated(document []byte) (licence string) {
	m, err := strictjson.Decode[v1.IndexManifest](document) // a manifest has annotations too
	if err != nil {
		return ""
	}
	licence = m.Annotations[driverinfo.VGPULabel]
	for _, below := range m.Manifests {
		licence = cmp.Or(licence, below.Annotations[driverinfo.VGPULabel])
	}
	return licence
}

// artifactLicence asks annotations, and the labels of images: tools that convert images drop the
// annotations.
func artifactLicence(a oci.Artifact) (licence string, err error) {
	content, err := oci.Collect(a)
	if err != nil {
		return "", err
	}
	for _, d := range content.Documents {
		licence = cmp.Or(licence, annotated(d.Raw))
	}
	for _, b := range content.Blobs {
		if licence != "" || !b.Desc.MediaType.IsConfig() {
			continue
		}
		raw, err := oci.ReadBlob(b, oci.MaxConfig)
		if err != nil {
			return "", err
		}
		image, _ := strictjson.Decode[v1.ConfigFile](raw) // of another artifact it is empty
		licence = image.Config.Labels[driverinfo.VGPULabel]
	}
	return licence, nil
}
