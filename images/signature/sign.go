package signature

import (
	"context"
	"crypto"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/driver-container/driver-container/images/oci"
)

// Sign signs the subjects and attests their predicates. It returns the attachments to push, which hold only
// what is new: attaching one extends a tag that exists, so what others signed stays. What the signer's key has signed already is not signed
// again; nothing remains to be pushed if that is everything. With a key that signs without random numbers
// (RSA, Ed25519) equal requests give equal bytes.
func Sign(ctx context.Context, r Request, s Signer) ([]oci.Attachment, error) {
	if s.Public() == nil && r.Format != Legacy {
		return nil, errors.New("a bundle names the key that signed it: give the public key of the signer, or use the legacy format")
	}
	wanted, err := r.pending(s.Public())
	if err != nil {
		return nil, err
	}
	var all []oci.Attachment
	made := map[[sha256.Size]byte][]byte{} // .att and bundles hold the same statements
	layers := map[int]map[storage][]oci.Blob{}
	for _, d := range wanted {
		message := d.message()
		signature, again := made[sha256.Sum256(message)]
		if !again {
			if signature, err = signAndCheck(ctx, s, message); err != nil {
				return nil, fmt.Errorf("make the %s: %w", d.about, err)
			}
			made[sha256.Sum256(message)] = signature
		}
		if d.storage == bundle {
			a, err := newBundle(r.Subjects[d.subject].Descriptor, d, s.Public(), signature)
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
		if layers[d.subject] == nil {
			layers[d.subject] = map[storage][]oci.Blob{}
		}
		layers[d.subject][d.storage] = append(layers[d.subject][d.storage], layer)
	}
	for i, subject := range r.Subjects {
		for _, to := range []storage{attTag, sigTag} { // the signature last: an image that has it has everything
			if more := layers[i][to]; len(more) > 0 {
				a, err := newTagged(subject.Descriptor.Digest, to, more)
				if err != nil {
					return nil, fmt.Errorf("sign %s: %w", subject.Descriptor.Digest, err)
				}
				all = append(all, a)
			}
		}
	}
	return all, nil
}

// signAndCheck finds a token or program that is faulty, or that signs with another key than it shows here and
// not in a cluster.
func signAndCheck(ctx context.Context, s Signer, message []byte) ([]byte, error) {
	signature, err := s.Sign(ctx, message)
	if err != nil {
		return nil, err
	}
	if len(signature) == 0 || len(signature) > maxSignature/2 {
		return nil, fmt.Errorf("a signature of %d bytes is none", len(signature))
	}
	if public := s.Public(); public != nil && !fits(public, message, signature) {
		return nil, fmt.Errorf("what the signer made does not fit its public key (%w): give the public key of the signer. "+
			"Images are signed with ECDSA (in ASN.1) or RSA PKCS#1 v1.5 over SHA-256, or with pure Ed25519", ErrForeign)
	}
	return signature, nil
}

// pending returns the documents that the key has not signed yet; all of them if the key is not known.
func (r Request) pending(public crypto.PublicKey) ([]document, error) {
	wanted, err := r.documents()
	if err != nil {
		return nil, err
	}
	if public == nil {
		return wanted, nil
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
			return nil, fmt.Errorf("%s has %w: what is added would not be read; remove its tags .sig and .att, or its referrers, then sign again",
				s.Descriptor.Digest, malformed(errBeyond))
		}
		wanted = slices.DeleteFunc(wanted, func(d document) bool {
			return d.subject == i && slices.ContainsFunc(have, func(e evidence) bool { return e.holds(d, public) })
		})
	}
	return wanted, nil
}

// holds says whether the evidence is the document, signed by the key.
func (e evidence) holds(d document, public crypto.PublicKey) bool {
	return e.err == nil && e.storage == d.storage && string(e.payload) == string(d.payload) &&
		slices.ContainsFunc(e.signatures, func(s []byte) bool { return fits(public, d.message(), s) })
}
