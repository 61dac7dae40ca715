package signature

import (
	"crypto"
	"errors"
	"fmt"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/failure"
)

// The faults of signatures and attestations.
var (
	// ErrUnsigned: the image has no signature.
	ErrUnsigned = failure.New(failure.Content, "it is not signed")
	// ErrForeign: none of the given keys made the signature, or what it is over was changed since.
	ErrForeign = failure.New(failure.Content, "none of the given keys made it, or it was changed since")
	// ErrSubject: the signature is good, for another image.
	ErrSubject = failure.New(failure.Content, "it is for another image")
	// ErrMalformed: the document cannot be read.
	ErrMalformed = failure.New(failure.Content, "it is malformed")
)

// Finding is a signature or an attestation that an image has.
type Finding struct {
	Where string   // ".sig", ".att" or the digest of the bundle's manifest
	Keys  []string // KeyID of each given key that made it

	// What is signed. These are set only if Err is nil.
	Identity    string         // .sig: the name that the signer gave the image, "registry.example.com/gpu/driver:tag"
	Annotations map[string]any // further values, as cosign sign -a writes them
	Predicate   Predicate      // .att and bundles

	Err error // nil if it is good: ErrForeign, ErrSubject or ErrMalformed
}

// Report says what is known of one image or index.
type Report struct {
	Subject      v1.Descriptor
	Signatures   []Finding
	Attestations []Finding
	// Hidden says that the image has bundles, and that none of them is good. cosign refuses such an image, even
	// if its .sig is good, because it looks at .sig only where there is no bundle.
	Hidden bool
}

// Verify judges the signatures and attestations of each subject with these keys. Its error means that keys
// are of no use or that something could not be read. What it read is judged in the reports; Report.Err says
// whether an image is signed.
func Verify(subjects []Subject, keys []crypto.PublicKey) ([]Report, error) {
	if len(keys) == 0 {
		return nil, errors.New("verify signatures: there is no public key")
	}
	ids := make([]string, len(keys))
	for i, key := range keys {
		err := CheckKey(key)
		if err == nil {
			ids[i], err = KeyID(key)
		}
		if err != nil {
			return nil, fmt.Errorf("verify signatures: %w", err)
		}
	}
	var reports []Report
	for _, s := range subjects {
		all, err := collect(s)
		if err != nil {
			return nil, fmt.Errorf("verify signatures: %w", err)
		}
		report := Report{Subject: s.Descriptor}
		bundles, good := 0, 0
		for _, e := range all {
			f, isSignature := e.judge(s.Descriptor.Digest, keys, ids)
			if isSignature {
				report.Signatures = append(report.Signatures, f)
			} else {
				report.Attestations = append(report.Attestations, f)
			}
			if e.storage == bundle {
				bundles++
				if f.Err == nil {
					good++
				}
			}
		}
		report.Hidden = bundles > 0 && good == 0
		reports = append(reports, report)
	}
	return reports, nil
}

// judge verifies first and parses then what is signed. It also says whether the document is a signature; of
// a bundle that is not good only its unsigned annotation tells.
func (e evidence) judge(subject v1.Hash, keys []crypto.PublicKey, ids []string) (f Finding, isSignature bool) {
	f.Where = e.where
	isSignature = e.storage == sigTag || e.storage == bundle && e.predicate == signPredicate
	if e.err != nil {
		f.Err = malformed(e.err)
		return f, isSignature
	}
	message := e.message()
	for i, key := range keys {
		if slices.ContainsFunc(e.signatures, func(s []byte) bool { return fits(key, message, s) }) && !slices.Contains(f.Keys, ids[i]) {
			f.Keys = append(f.Keys, ids[i])
		}
	}
	if len(f.Keys) == 0 {
		f.Err = ErrForeign
		return f, isSignature
	}
	if e.storage == sigTag {
		p, err := decodePayload(e.payload)
		switch {
		case err != nil:
			f.Err = malformed(err)
		case p.Critical.Image.DockerManifestDigest != subject.String():
			f.Err = fmt.Errorf("%w, %.80q", ErrSubject, p.Critical.Image.DockerManifestDigest)
		default:
			f.Identity, f.Annotations = p.Critical.Identity.DockerReference, p.Optional
		}
		return f, isSignature
	}
	predicate := f.readStatement(e.payload, subject)
	if predicate == "" {
		return f, isSignature
	}
	return f, e.storage == bundle && predicate == signPredicate
}

// readStatement reads what an attestation says of a subject, and returns the type of its predicate; "" if it
// cannot be read.
func (f *Finding) readStatement(payload []byte, subject v1.Hash) (predicateType string) {
	s, err := decodeStatement(payload)
	if err != nil {
		f.Err = malformed(err)
		return ""
	}
	if about := s.about(subject); about == nil {
		f.Err = ErrSubject
	} else {
		f.Predicate, f.Annotations = Predicate{s.PredicateType, s.Predicate}, about.Annotations
	}
	return s.PredicateType
}

func malformed(err error) error { return fmt.Errorf("%w: %w", ErrMalformed, err) }

// Err returns nil if the image has a good signature, else an error that wraps ErrUnsigned or the faults of
// the signatures. An attestation is no signature here, although cosign takes one in a bundle for it.
func (r *Report) Err() error {
	if len(r.Signatures) == 0 {
		return fmt.Errorf("%s: %w", r.Subject.Digest, ErrUnsigned)
	}
	var faults []error
	for _, f := range r.Signatures {
		if f.Err == nil {
			return nil
		}
		if len(faults) < maxFaults {
			faults = append(faults, fmt.Errorf("the signature in %s: %w", f.Where, f.Err))
		}
	}
	return fmt.Errorf("%s has no good signature: %w", r.Subject.Digest, errors.Join(faults...))
}

// maxFaults bounds the length of a message.
const maxFaults = 5
