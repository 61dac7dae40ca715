package attestation

import (
	"crypto"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/images/signature"
	"github.com/driver-container/driver-container/images/verify"
)

// The rules of findings about signatures.
const (
	signatureRule   = "image-signature"
	attestationRule = "attestation"
)

// Verify judges the signatures and attestations of an image, and of the images in an index, with these keys.
// The artifact and every image in it must have a good signature. Its error means that keys are of no use or
// that something could not be read.
func Verify(i *Image, keys []crypto.PublicKey) (findings []verify.Finding, err error) {
	all, err := subjects(i.Artifact, i.Have)
	if err != nil {
		return nil, err
	}
	reports, err := signature.Verify(all, keys)
	if err != nil {
		return nil, err
	}
	for _, r := range reports {
		findings = append(findings, findingsOf(r)...)
	}
	return findings, nil
}

func findingsOf(r signature.Report) (findings []verify.Finding) {
	digest := r.Subject.Digest.String()
	add := func(severity verify.Severity, rule, format string, args ...any) {
		findings = append(findings, verify.Finding{Severity: severity, Rule: rule, Message: fmt.Sprintf(format, args...)})
	}
	if err := r.Err(); err != nil {
		add(verify.Error, signatureRule, "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
	} else {
		signers, names := signed(r.Signatures)
		add(verify.Note, signatureRule, "%s is signed by %s%s", digest, signers, names)
	}
	if r.Hidden {
		add(verify.Warning, signatureRule, "%s has sigstore bundles and none of them is good: cosign refuses the image, because it looks at "+
			".sig only where there is no bundle; sign with --signature-format both", digest)
	}
	for _, f := range r.Attestations {
		switch {
		case f.Err == nil:
			add(verify.Note, attestationRule, "%s: %s by %s (%s)", digest, f.Predicate.Type, keyNames(f.Keys), f.Where)
		case errors.Is(f.Err, signature.ErrForeign): // anyone who may push can add one; it counts for nothing
			add(verify.Warning, attestationRule, "%s: the attestation in %s: %s", digest, f.Where, f.Err)
		default:
			add(verify.Error, attestationRule, "%s: the attestation in %s: %s", digest, f.Where, f.Err)
		}
	}
	return findings
}

// signed returns the keys of the good signatures, and the names that they state.
func signed(all []signature.Finding) (signers, names string) {
	var keys, identities []string
	for _, f := range all {
		if f.Err != nil {
			continue
		}
		keys = append(keys, f.Keys...)
		if f.Identity != "" {
			identities = append(identities, f.Identity)
		}
	}
	slices.Sort(identities)
	if len(identities) > 0 {
		names = " as " + strings.Join(slices.Compact(identities), ", ")
	}
	return keyNames(keys), names
}

// keyNames names keys by the beginning of the SHA-256 of their public halves.
func keyNames(ids []string) string {
	var short []string
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		short = append(short, id[:min(len(id), 12)])
	}
	return "key " + strings.Join(short, ", ")
}
