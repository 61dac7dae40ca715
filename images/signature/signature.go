// Package signature makes and judges the signatures and attestations of images, in the formats of
// cosign: the tags .sig and .att, which all verifiers read, and sigstore bundles, which are
// referrers. It needs no network and asks no transparency log. images/registry finds and pushes
// what it makes.
//
// It neither decides which keys to trust nor loads them (kmod/sign/keyfile does), and it does not
// verify the certificates of keyless signatures.
package signature

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/imagename"
	"github.com/driver-container/driver-container/images/oci"
)

// Format is the way in which signatures and attestations are stored.
type Format string

// The formats. Legacy is the one that all verifiers read. Bundles hide it: as soon as an image has
// one, cosign looks at bundles only.
const (
	Legacy Format = "legacy" // the tags .sig and .att
	Bundle Format = "bundle" // sigstore bundles 0.3 as referrers
	Both   Format = "both"
)

// Subject is an image or an index, with what belongs to it.
type Subject struct {
	Descriptor v1.Descriptor // its media type, size and digest
	// in the registry; other attachments than signatures and attestations are skipped
	Attachments []oci.Attachment
	Predicates  []Predicate // to attest; Verify does not read them
}

// Subjects are documents, each with those of the attachments that belong to it.
func Subjects(all []oci.Document, attachments []oci.Attachment) (subjects []Subject) {
	for _, d := range all {
		s := Subject{Descriptor: d.Desc}
		for _, a := range attachments {
			if a.Subject == d.Desc.Digest {
				s.Attachments = append(s.Attachments, a)
			}
		}
		subjects = append(subjects, s)
	}
	return subjects
}

// Predicate is what an attestation says about its subject.
type Predicate struct {
	Type string          // URI: "https://spdx.dev/Document"
	Body json.RawMessage // JSON
}

// Request says what to sign. To sign an image of several architectures, give the index and every
// image in it as subjects: cosign verifies the index, Podman and CRI-O verify the image that they
// chose.
type Request struct {
	// Repository and Tags become the identities in .sig: one signature for the repository, which
	// cosign's verifiers and exact rules of containers/image expect, and one for each tag, which
	// the default rules of containers/image and its rules for mirrors need.
	Repository string
	Tags       []string
	Subjects   []Subject
	Format     Format
}

// document is something to sign: the payload of .sig, or the statement of .att and of bundles.
type document struct {
	subject   int // index in Request.Subjects
	storage   storage
	payload   []byte
	predicate string // type; "" in .sig
	about     string // for people
}

// storage is the place of a document.
type storage string

const (
	sigTag storage = ".sig"
	attTag storage = ".att"
	bundle storage = "bundle"
)

// message returns the bytes that are signed.
func (d document) message() []byte {
	if d.storage == sigTag {
		return d.payload
	}
	return preAuthEncoding(statementType, d.payload)
}

// documents returns everything that the request asks for, in the order in which it is pushed: the
// signature of an image is the last, so an image that has it has everything. Where there are
// bundles, each subject has one that is a signature: verifiers that find a bundle look at nothing
// else.
func (r Request) documents() (all []document, err error) {
	if len(r.Subjects) == 0 {
		return nil, errors.New("there is no image to sign")
	}
	if !slices.Contains([]Format{Legacy, Bundle, Both}, r.Format) {
		return nil, fmt.Errorf("%q is no format of signatures: give legacy, bundle or both", r.Format)
	}
	identities, err := r.identities()
	if err != nil {
		return nil, err
	}
	for i, s := range r.Subjects {
		digest := s.Descriptor.Digest
		if digest.Algorithm != "sha256" || s.Descriptor.MediaType == "" || s.Descriptor.Size == 0 {
			return nil, fmt.Errorf("sign %s: media type, size and SHA-256 of the image are needed", digest)
		}
		if r.Format != Legacy {
			signs := document{i, bundle, nil, signPredicate, "signature of " + digest.String()}
			signs.payload, err = encodeStatement(digest, Predicate{signPredicate, json.RawMessage("{}")})
			if err != nil {
				return nil, err
			}
			all = append(all, signs)
		}
		var attested []document
		for _, p := range s.Predicates {
			if p.Type == "" || !jsontext.Value(p.Body).IsValid() {
				return nil, fmt.Errorf("attest %q of %s: the predicate needs a type and must be JSON", p.Type, digest)
			}
			d := document{i, bundle, nil, p.Type, fmt.Sprintf("attestation %s of %s", p.Type, digest)}
			d.payload, err = encodeStatement(digest, p)
			if err != nil {
				return nil, fmt.Errorf("attest %s of %s: %w", p.Type, digest, err)
			}
			if r.Format != Legacy {
				all = append(all, d)
			}
			d.storage = attTag
			attested = append(attested, d)
		}
		if r.Format == Bundle {
			continue
		}
		all = append(all, attested...)
		for _, identity := range identities {
			payload, err := encodePayload(identity, digest)
			if err != nil {
				return nil, err
			}
			all = append(all, document{i, sigTag, payload, "", fmt.Sprintf("signature of %s as %s", digest, identity)})
		}
	}
	return all, nil
}

// identities returns the full names that .sig states. Bundles state none.
func (r Request) identities() ([]string, error) {
	if r.Format == Bundle {
		return nil, nil
	}
	if err := imagename.CheckRepository(r.Repository); err != nil {
		return nil, fmt.Errorf(
			"a signature of the legacy format states the image's repository: %w",
			err,
		)
	}
	repository, err := name.NewRepository(r.Repository)
	if err != nil {
		return nil, err
	}
	all := []string{repository.Name()}
	for _, tag := range r.Tags {
		if err := imagename.CheckTag(tag); err != nil {
			return nil, fmt.Errorf(
				"a signature of the legacy format states the image's tags: %w",
				err,
			)
		}
		all = append(all, repository.Tag(tag).Name())
	}
	return all, nil
}
