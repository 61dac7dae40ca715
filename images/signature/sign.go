package signature

import (
	"context"
	"crypto"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/images/oci"
)

// Sign signs the subjects and attests their predicates. It returns the attachments to push, which
// hold only what is new: attaching one extends a tag that exists, so what others signed stays. What
// the signer's key has signed already is not signed again; nothing remains to be pushed if that is
// everything. With a key that signs without random numbers (RSA, Ed25519) equal requests give equal
// bytes.
func Sign(ctx context.Context, r Request, s Signer) (all []oci.Attachment, err error) {
	if s.Public() == nil && r.Format != Legacy {
		return nil, errors.New(
			"a bundle names the key that signed it: give the public key of the signer, or use the legacy format",
		)
	}
	wanted, err := r.pending(s.Public())
	if err != nil {
		return nil, err
	}
	var layers []oci.Blob // of the tag that is next
	var faults []error
	for n, d := range wanted {
		signature, err := signAndCheck(ctx, s, d.message())
		if err != nil {
			faults = append(faults, fmt.Errorf("make the %s: %w", d.about, err))
			if _, imported := s.(Imported); imported && len(faults) < maxFaults {
				continue // to name all that are missing
			}
			break
		}
		subject := r.Subjects[d.subject].Descriptor
		if d.storage == bundle {
			a, err := newBundle(subject, d, s.Public(), signature)
			if err != nil {
				return nil, err
			}
			all = append(all, a)
			continue
		}
		layer, err := newLayer(d, signature)
		if err != nil {
			return nil, err
		}
		layers = append(layers, layer)
		if n+1 == len(wanted) || wanted[n+1].subject != d.subject ||
			wanted[n+1].storage != d.storage {
			a, err := newTagged(subject.Digest, d.storage, layers)
			if err != nil {
				return nil, fmt.Errorf("sign %s: %w", subject.Digest, err)
			}
			all = append(all, a)
			layers = nil
		}
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return all, nil
}

// signAndCheck finds a token or program that is faulty, or that signs with another key than it
// shows here and not in a cluster.
func signAndCheck(ctx context.Context, s Signer, message []byte) ([]byte, error) {
	signature, err := s.Sign(ctx, message)
	if err != nil {
		return nil, err
	}
	if public := s.Public(); public != nil && !fits(public, message, signature) {
		return nil, fmt.Errorf(
			"what the signer made does not fit its public key (%w): give the public key of the signer. "+
				"Images are signed with ECDSA (in ASN.1) or RSA PKCS#1 v1.5 over SHA-256, or with pure Ed25519",
			ErrForeign,
		)
	}
	return signature, nil
}

// pending returns the documents that the key has not signed yet; all of them if the key is not
// known.
func (r Request) pending(public crypto.PublicKey) ([]document, error) {
	wanted, err := r.documents()
	if err != nil || public == nil {
		return wanted, err
	}
	if err := CheckKey(public); err != nil {
		return nil, err
	}
	for i, s := range r.Subjects {
		have, err := collect(s)
		if err != nil {
			return nil, fmt.Errorf("read the signatures of %s: %w", s.Descriptor.Digest, err)
		}
		if slices.ContainsFunc(have, func(e evidence) bool { return errors.Is(e.err, errBeyond) }) {
			return nil, fmt.Errorf(
				"%s has %w: what is added would not be read; remove its tags .sig and .att, or its referrers, then sign again",
				s.Descriptor.Digest,
				malformed(errBeyond),
			)
		}
		wanted = slices.DeleteFunc(wanted, func(d document) bool {
			return d.subject == i &&
				slices.ContainsFunc(have, func(e evidence) bool { return e.holds(d, public) })
		})
	}
	return wanted, nil
}

// holds says whether the evidence is the document, signed by the key.
func (e evidence) holds(d document, public crypto.PublicKey) bool {
	return e.err == nil && e.storage == d.storage && string(e.payload) == string(d.payload) &&
		slices.ContainsFunc(
			e.signatures,
			func(s []byte) bool { return fits(public, d.message(), s) },
		)
}

// newLayer returns the layer of .sig or .att that holds a document.
func newLayer(d document, signature []byte) (oci.Blob, error) {
	if d.storage == sigTag {
		return oci.BytesBlob(
			payloadMediaType,
			d.payload,
			map[string]string{signatureAnnotation: base64.StdEncoding.EncodeToString(signature)},
		), nil
	}
	raw, err := oci.EncodeJSON(newEnvelope(d, signature), "")
	if err != nil {
		return oci.Blob{}, fmt.Errorf("make the envelope of the %s: %w", d.about, err)
	}
	return oci.BytesBlob(
		envelopeMediaType,
		raw,
		map[string]string{signatureAnnotation: "", predicateAnnotation: d.predicate},
	), nil
}

func newEnvelope(d document, signature []byte) *envelope {
	return &envelope{d.payload, statementType, []envelopeSignature{{Sig: signature}}}
}

// newTagged returns an attachment of layers for .sig or .att. Where it is attached, what is under
// the tag already stays. The manifest looks like that of an image, as cosign's does: its config
// lists the digests of the layers.
func newTagged(subject v1.Hash, to storage, layers []oci.Blob) (oci.Attachment, error) {
	a := oci.Attachment{Subject: subject, Tag: oci.ReferrersTag(subject) + string(to)}
	var m v1.Manifest
	cf := v1.ConfigFile{RootFS: v1.RootFS{Type: "layers"}}
	for _, l := range layers {
		m.Layers = append(m.Layers, l.Desc)
		cf.RootFS.DiffIDs = append(cf.RootFS.DiffIDs, l.Desc.Digest)
		cf.History = append(cf.History, v1.History{})
	}
	config, err := json.Marshal(cf)
	if err != nil {
		return a, err
	}
	a.Blobs = append(slices.Clone(layers), oci.BytesBlob(types.OCIConfigJSON, config, nil))
	m.Config = a.Blobs[len(layers)].Desc
	a.Manifest, err = oci.NewManifest(m)
	return a, err
}

// newBundle returns the referrer that holds one statement. Verifiers expect one layer in each.
func newBundle(
	subject v1.Descriptor,
	d document,
	public crypto.PublicKey,
	signature []byte,
) (oci.Attachment, error) {
	sum, err := fingerprint(public)
	if err != nil {
		return oci.Attachment{}, err
	}
	b := sigstoreBundle{MediaType: bundleMediaType, Envelope: newEnvelope(d, signature)}
	b.VerificationMaterial.PublicKey.Hint = sum
	raw, err := oci.EncodeJSON(b, "")
	if err != nil {
		return oci.Attachment{}, fmt.Errorf("make the bundle with the %s: %w", d.about, err)
	}
	return oci.NewReferrer(
		subject,
		bundleMediaType,
		[]oci.Blob{oci.BytesBlob(bundleMediaType, raw, nil)},
		map[string]string{
			contentAnnotation:         "dsse-envelope",
			bundlePredicateAnnotation: d.predicate,
		},
	)
}
