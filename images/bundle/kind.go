package bundle

import (
	"strings"

	"github.com/driver-container/driver-container/images/oci"
)

// ItemKind says what an item is. It decides whether the item has a name in index.json; everything else
// of it is for people.
type ItemKind string

// The kinds of items. Image and Base are container images, all others are not.
const (
	Image ItemKind = "image"
	Base  ItemKind = "base" // an image that is needed to build others
	Chart ItemKind = "chart"
	// files that images are built from: matrix, lock, packages, archives, programs
	Inputs      ItemKind = "inputs"
	Headers     ItemKind = "headers"
	Signature   ItemKind = "signature"
	Attestation ItemKind = "attestation" // several statements at once, as in a .att tag
	SBOM        ItemKind = "sbom"
	Provenance  ItemKind = "provenance"
	VEX         ItemKind = "vex"
	Referrer    ItemKind = "referrer" // any other attachment
)

// kinds is the order of items in a list: images first, so that their layers are sent first.
var kinds = []ItemKind{
	Image,
	Base,
	Chart,
	Inputs,
	Headers,
	Signature,
	Attestation,
	SBOM,
	Provenance,
	VEX,
	Referrer,
}

// named says whether an item of the kind has a name in index.json. containerd refuses an archive in
// which anything but an image has one.
func (k ItemKind) named() bool { return k == Image || k == Base }

// kindOf is the kind of an attachment, by its tag, its artifact type and its annotations.
func kindOf(a oci.Attachment) ItemKind {
	switch a.Tag {
	case oci.SignatureTag(a.Subject):
		return Signature
	case oci.AttestationTag(a.Subject):
		return Attestation
	}
	about := a.Manifest.Desc.ArtifactType
	if predicate := a.Manifest.Desc.Annotations["dev.sigstore.bundle.predicateType"]; predicate != "" {
		about = predicate
	}
	for _, known := range []struct {
		part string
		kind ItemKind
	}{
		{"sigstore.dev/cosign/sign", Signature},
		{"cncf.notary.signature", Signature},
		{"spdx", SBOM},
		{"cyclonedx", SBOM},
		{"slsa.dev/provenance", Provenance}, {"openvex", VEX}, {"in-toto", Attestation},
	} {
		if strings.Contains(about, known.part) {
			return known.kind
		}
	}
	return Referrer
}
