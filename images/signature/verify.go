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
	ErrForeign = failure.New(
		failure.Content,
		"none of the given keys made it, or it was changed since",
	)
	// ErrSubject: the signature is good, for another image.
	ErrSubject = failure.New(failure.Content, "it is for another image")
	// ErrMalformed: the document cannot be read.
	ErrMalformed = failure.New(failure.Content, "it is malformed")
)

func malformed(err error) error { return fmt.Errorf("%w: %w", ErrMalformed, err) }

// maxFaults bounds the length of a message.
const maxFaults = 5

// Verdict is a signature or an attestation that an image has.
type Verdict struct {
	Where string   // ".sig", ".att" or the digest of the bundle's manifest
	Keys  []string // KeyID of each given key that made it

	// What is signed. These are set only if Err is nil.
	Identity  string    // .sig: the name that the signer gave the image, "registry.example.com/gpu/driver:tag"
	Predicate Predicate // .att and bundles

	Err error // nil if it is good: ErrForeign, ErrSubject or ErrMalformed
}

// Report says what is known of one image or index.
type Report struct {
	Subject      v1.Descriptor
	Signatures   []Verdict
	Attestations []Verdict
	// Hidden says that the image has bundles, and that none of them is good. cosign refuses such an
	// image, even if its .sig is good, because it looks at .sig only where there is no bundle.
	Hidden bool
}

// Verify judges the signatures and attestations of each subject with these keys. Its error means
// that keys are of no use or that something could not be read. What it read is judged in the
// reports; Report.Err says whether an image is signed.
func Verify(subjects []Subject, keys []crypto.PublicKey) (_ []Report, err error) {
	defer failure.Wrap(&err, "verify signatures")
	if len(keys) == 0 {
		return nil, errors.New("there is no public key")
	}
	ids := make([]string, len(keys))
	for i, key := range keys {
		err := CheckKey(key)
		if err != nil {
			return nil, err
		}
		ids[i], err = KeyID(key)
		if err != nil {
			return nil, err
		}
	}
	return report(subjects, func(f *Verdict, e evidence) {
		message := e.message()
		for i, key := range keys {
			made := func(s []byte) bool { return fits(key, message, s) }
			if slices.ContainsFunc(e.signatures, made) && !slices.Contains(f.Keys, ids[i]) {
				f.Keys = append(f.Keys, ids[i])
			}
		}
		if len(f.Keys) == 0 {
			f.Err = ErrForeign
		}
	})
}

// Unverified reports the signatures and attestations of each subject without a look at who signed
// them: anyone who may push to the repository can add one. It is for those who say so to the user.
// Its error means that something could not be read.
func Unverified(subjects []Subject) (_ []Report, err error) {
	defer failure.Wrap(&err, "read signatures")
	return report(subjects, func(*Verdict, evidence) {})
}

// report judges the signers of each document first, and then parses what they signed.
func report(subjects []Subject, judge func(*Verdict, evidence)) (reports []Report, err error) {
	for _, s := range subjects {
		all, err := collect(s)
		if err != nil {
			return nil, err
		}
		r := Report{Subject: s.Descriptor}
		bundles := 0
		good := 0
		for _, e := range all {
			f := Verdict{Where: e.where}
			if e.err != nil {
				f.Err = malformed(e.err)
			} else if judge(&f, e); f.Err == nil {
				e.parse(&f, s.Descriptor.Digest)
			}
			if e.storage == sigTag || e.storage == bundle && e.predicate == signPredicate {
				r.Signatures = append(r.Signatures, f)
			} else {
				r.Attestations = append(r.Attestations, f)
			}
			if e.storage == bundle {
				bundles++
				if f.Err == nil {
					good++
				}
			}
		}
		r.Hidden = bundles > 0 && good == 0
		reports = append(reports, r)
	}
	return reports, nil
}

// parse reads what a document says of a subject. The predicate is what is signed then, and not the
// annotation that anyone could write beside it.
func (e *evidence) parse(f *Verdict, subject v1.Hash) {
	if e.storage == sigTag {
		p, err := decodePayload(e.payload)
		if err != nil {
			f.Err = malformed(err)
		} else if p.Critical.Image.DockerManifestDigest != subject.String() {
			f.Err = fmt.Errorf("%w, %.80q", ErrSubject, p.Critical.Image.DockerManifestDigest)
		} else {
			f.Identity = p.Critical.Identity.DockerReference
		}
		return
	}
	s, err := decodeStatement(e.payload)
	if err != nil {
		f.Err = malformed(err)
		return
	}
	e.predicate = s.PredicateType
	if slices.ContainsFunc(
		s.Subject,
		func(about statementSubject) bool { return about.Digest[subject.Algorithm] == subject.Hex },
	) {
		f.Predicate = Predicate{s.PredicateType, s.Predicate}
	} else {
		f.Err = ErrSubject
	}
}

// Err returns nil if the image has a good signature, else an error that wraps ErrUnsigned or the
// faults of the signatures. An attestation is no signature here, although cosign takes one in a
// bundle for it.
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
