package attestation

import (
	"cmp"
	"crypto"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/driver-container/driver-container/images/documents"
	"github.com/driver-container/driver-container/images/imagename"
	"github.com/driver-container/driver-container/images/signature"
	"github.com/driver-container/driver-container/images/verify"
)

// The rules of findings: about signatures, and about images that were built again.
const (
	signatureRule   = "image-signature"
	attestationRule = "attestation"
	rebuildRule     = "rebuild"
)

// Trust says what an image has to have.
type Trust struct {
	Keys []crypto.PublicKey // one of them made each signature that counts
	// Identity is the name that a signature must state: REGISTRY/PATH:TAG, or REGISTRY/PATH for any
	// tag of it; "": the tag of the reference, if that has one.
	Identity string
	Require  []string // types of attestations, see PredicateTypes
}

// predicateTypes are the short names of types.
var predicateTypes = map[string][]string{
	"sbom": {
		documents.SPDX.PredicateType(),
		documents.CycloneDX.PredicateType(),
	}, "spdx": {documents.SPDX.PredicateType()},
	"cyclonedx": {
		documents.CycloneDX.PredicateType(),
	}, "provenance": {documents.ProvenanceType}, "vex": {documents.VEXType},
}

// Check refuses names and types that nothing can have.
func (t Trust) Check() error {
	if t.Identity != "" {
		if err := imagename.CheckImage(t.Identity); err != nil {
			return fmt.Errorf("--identity: %w", err)
		}
		if strings.Contains(t.Identity, "@") {
			return fmt.Errorf(
				"--identity %s: signatures state names, and the digest is checked always: leave it out",
				t.Identity,
			)
		}
	}
	for _, kind := range t.Require {
		if predicateTypes[kind] == nil && !strings.Contains(kind, ":") {
			return fmt.Errorf(
				"--require %s: give %s, or the URI of a type",
				kind,
				strings.Join(slices.Sorted(maps.Keys(predicateTypes)), ", "),
			)
		}
	}
	return nil
}

// Verify judges the signatures and attestations of an image, and of the images in an index. The
// artifact and every image in it must have a good signature; the artifact, which the reference
// names, must be signed under that name and have the required attestations. Its error means that
// keys are of no use or that something could not be read.
func (t Trust) Verify(i *Finished) (findings []verify.Finding, err error) {
	reports, err := signature.Verify(i.subjects, t.Keys)
	if err != nil {
		return nil, err
	}
	for _, r := range reports {
		findings = append(findings, findingsOf(r)...)
	}
	if reports[0].Err() == nil {
		findings = append(findings, t.named(i, reports[0])...)
	}
	for _, kind := range t.Require {
		if !attested(reports[0].Attestations, kind) {
			findings = append(
				findings,
				finding(
					verify.Error,
					attestationRule,
					"%s: no attestation of type %s by the given keys",
					i.Digest,
					kind,
				),
			)
		}
	}
	return findings, nil
}

func finding(severity verify.Severity, rule, format string, args ...any) verify.Finding {
	return verify.NewFinding(severity, rule, "", format, args...)
}

// named judges the names that the good signatures state: a tag can be moved to another image that
// is signed.
func (t Trust) named(i *Finished, r signature.Report) []verify.Finding {
	find := func(severity verify.Severity, format string, args ...any) []verify.Finding {
		return []verify.Finding{finding(severity, signatureRule, format, args...)}
	}
	_, stated := signed(r.Signatures)
	names := cmp.Or(listed(stated), ", and bundles state no name")
	want := t.Identity
	whole, err := name.NewTag(want, name.WithDefaultTag(""))
	if err != nil {
		whole = name.Tag{} // a repository
	}
	if want != "" && err == nil {
		want = strings.TrimSuffix(whole.Name(), ":")
	}
	fits := func(s string) bool { return s == want || strings.HasPrefix(s, want+":") }
	tagged := func(s string) bool { return strings.HasSuffix(s, ":"+i.Tag) }
	switch {
	case want != "" && !slices.ContainsFunc(stated, fits):
		return find(
			verify.Error, "no good signature of %s states the name %s: it is signed%s",
			i.Digest, want, names,
		)
	case want != "" || i.Tag == "":
	case !slices.ContainsFunc(stated, tagged):
		return find(
			verify.Error,
			"no good signature of %s states the tag %s, so the tag may have been moved to it: it is signed%s; name what you mean by its "+
				"digest, or with --identity the name that is signed",
			i.Digest, i.Tag, names,
		)
	case i.Repository != "" && !slices.Contains(stated, i.Repository+":"+i.Tag):
		return find(
			verify.Warning,
			"%s is signed%s, and not as %s:%s: in a mirror, --identity says which name is meant",
			i.Digest, names, i.Repository, i.Tag,
		)
	}
	return nil
}

// attested says whether there is a good attestation of a type, or of a version of it.
func attested(all []signature.Verdict, kind string) bool {
	types := append([]string{kind}, predicateTypes[kind]...)
	return slices.ContainsFunc(all, func(f signature.Verdict) bool {
		return f.Err == nil &&
			slices.ContainsFunc(
				types,
				func(t string) bool { return strings.HasPrefix(f.Predicate.Type+"/", t+"/") },
			)
	})
}

func findingsOf(r signature.Report) (findings []verify.Finding) {
	digest := r.Subject.Digest.String()
	add := func(severity verify.Severity, rule, format string, args ...any) {
		findings = append(findings, finding(severity, rule, format, args...))
	}
	err := r.Err()
	if err != nil {
		add(verify.Error, signatureRule, "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
	} else {
		keys, names := signed(r.Signatures)
		add(verify.Note, signatureRule, "%s is signed by %s%s", digest, keyNames(keys), listed(names))
	}
	if r.Hidden {
		add(
			verify.Warning,
			signatureRule,
			"%s has sigstore bundles and none of them is good: cosign refuses the image, because it looks at "+
				".sig only where there is no bundle; sign with --signature-format both",
			digest,
		)
	}
	for _, f := range r.Attestations {
		if f.Err != nil {
			severity := verify.Error
			if errors.Is(f.Err, signature.ErrForeign) {
				severity = verify.Warning // anyone who may push can add one; it counts for nothing
			}
			add(severity, attestationRule, "%s: the attestation in %s: %s", digest, f.Where, f.Err)
			continue
		}
		add(
			verify.Note, attestationRule, "%s: %s by %s (%s)",
			digest, f.Predicate.Type, keyNames(f.Keys), f.Where,
		)
	}
	return findings
}

// signed returns the keys of the good signatures, and the names that they state, sorted.
func signed(all []signature.Verdict) (keys, names []string) {
	for _, f := range all {
		if f.Err != nil {
			continue
		}
		keys = append(keys, f.Keys...)
		if f.Identity != "" {
			names = append(names, f.Identity)
		}
	}
	slices.Sort(names)
	return keys, slices.Compact(names)
}

// listed writes names behind the word that they are signed.
func listed(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return " as " + strings.Join(names, ", ")
}

// keyNames names keys by the beginning of the SHA-256 of their public halves.
func keyNames(ids []string) string {
	var short []string
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		short = append(short, id[:min(len(id), 12)])
	}
	return "key " + strings.Join(short, ", ")
}
