package attestation

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/documents"
	"github.com/driver-container/driver-container/images/kernelmodules"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/signature"
	"github.com/driver-container/driver-container/images/verify"
	"github.com/driver-container/driver-container/kmod/sign"
)

const (
	// bounds how often an image is built: each of its provenances that differs is tried
	maxProvenances = 4
	maxFaults      = 5 // bounds the length of a message
)

// Rebuild says what is trusted, and where the inputs are that a provenance does not locate.
type Rebuild struct {
	// one of them must have signed the provenance; none: anybody may have written it
	Keys         []crypto.PublicKey
	Certificates []*x509.Certificate // of the keys that signed modules of the image
	Arch         string              // one image of an index; "": all
	// where the base image is: a reference or an image on this machine; "": its name by digest
	Base   string
	Source string // URL of the driver's .run archive; "": that of the provenance
}

// statement is a recipe that an image may have been built from.
type statement struct {
	where  string // ".att, key 0123456789ab"
	recipe *recipe.Recipe
}

// Images builds the image, or every image of the index, that a reference names again from its
// provenance, and compares. The inputs come from the cache, or from where the provenance says;
// nothing is pushed and no layer of an earlier build is used. Each finding is a line; errors are
// differences, and images without a provenance. The error is that of what could not be fetched or
// built, or of kind failure.Usage for what the caller has to give.
func (o Rebuild) Images(
	ctx context.Context,
	b *images.Builder,
	ref string,
) (findings []verify.Finding, err error) {
	i, err := Open(ctx, b.Registry, ref)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", ref, err)
	}
	records, remove, err := layer.WorkFolder(b.Store)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	b = b.Fresh(records)
	var reports []signature.Report
	if len(o.Keys) == 0 {
		findings = append(
			findings,
			finding(verify.Warning, rebuildRule, "the provenance is not authenticated: "+
				"anyone who may push to the repository can have written it; give --key with the signer's public key"),
		)
		reports, err = signature.Unverified(i.subjects)
	} else {
		reports, err = signature.Verify(i.subjects, o.Keys)
	}
	if err != nil {
		return findings, err
	}
	_, all, err := documents.Open(ctx, b.Registry, i.ref, o.Arch)
	if err != nil {
		return findings, err
	}
	var same []v1.Image
	for _, named := range all {
		found, equal, err := o.one(ctx, b, i.Digest, named.Digest, named.Image, reports)
		findings = append(findings, found...)
		if err != nil {
			return findings, fmt.Errorf("build %s again: %w", named.Digest, err)
		}
		if equal {
			same = append(same, named.Image)
		}
	}
	if len(same) < len(all) || o.Arch != "" || all[0].Digest == i.Digest {
		return findings, nil
	}
	f, err := compareIndex(i.Digest, same)
	return append(findings, f), err
}

// one builds one image again from each of its provenances, until one is true.
func (o Rebuild) one(
	ctx context.Context,
	b *images.Builder,
	top, digest v1.Hash,
	img v1.Image,
	reports []signature.Report,
) (findings []verify.Finding, equal bool, err error) {
	config, err := img.ConfigFile()
	if err != nil {
		return nil, false, err
	}
	arch := config.Architecture
	problem := func(format string, args ...any) {
		findings = append(findings, finding(verify.Error, rebuildRule, format, args...))
	}
	statements, missing := provenances(reports, top, digest, arch)
	if missing != "" {
		problem("%s (%s) %s", digest, arch, missing)
		return findings, false, nil
	}
	var failed []error
	for _, s := range statements {
		what := fmt.Sprintf("%s (%s): built again from its provenance (%s)", digest, arch, s.where)
		again, differences, err := o.build(ctx, b, img, s.recipe)
		switch {
		case errors.Is(err, kernelmodules.ErrOther):
			problem("%s: %s", what, err)
		case err != nil:
			failed = append(failed, err) // another provenance may be true
		case len(differences) == 0:
			return []verify.Finding{
				finding(verify.Note, rebuildRule, "%s, with the same digest", what),
			}, true, nil
		default:
			if what += ", its digest is " + again.String(); again == digest {
				what += ", too, but what the provenance says is not true"
			}
			problem("%s", what)
			for _, text := range differences {
				problem("%s: %s", arch, text)
			}
		}
	}
	return findings, false, errors.Join(failed...)
}

// provenances returns the different recipes that are attested of an image or of the index that it
// is in, or says why there is none.
func provenances(
	reports []signature.Report,
	top, digest v1.Hash,
	arch string,
) (found []statement, missing string) {
	seen := map[string]bool{}
	var faults []string
	for _, report := range reports {
		if report.Subject.Digest != digest && report.Subject.Digest != top {
			continue
		}
		for _, f := range report.Attestations {
			body := string(f.Predicate.Body)
			if f.Err != nil {
				faults = append(faults, f.Where+": "+f.Err.Error())
				continue
			}
			if f.Predicate.Type != documents.ProvenanceType || seen[body] {
				continue
			}
			seen[body] = true
			r, err := documents.ReadRecipe(f.Predicate.Body)
			switch {
			case err != nil:
				faults = append(faults, f.Where+": "+err.Error())
			case r.Arch == arch:
				if len(f.Keys) > 0 {
					f.Where += ", " + keyNames(f.Keys[:1])
				}
				found = append(found, statement{f.Where, r})
			case report.Subject.Digest == digest: // an index has those of all its images
				faults = append(faults, f.Where+": it is about an image for "+r.Arch)
			}
		}
	}
	switch {
	case len(found) > maxProvenances:
		return nil, fmt.Sprintf(
			"has %d different provenances, and at most %d are tried: remove those that are not true",
			len(found),
			maxProvenances,
		)
	case len(found) > 0:
		return found, ""
	}
	missing = "has no provenance to build it from"
	if len(faults) > 0 {
		missing += " (" + strings.Join(faults[:min(len(faults), maxFaults)], "; ") + ")"
	}
	return nil, missing + ": copy the image with its attestations (driver-build push), have its builder attest one (--provenance of a build), or build it " +
		"with its matrix and lock (driver-build --lock) and compare the digest"
}

// build builds an image from a recipe, and says what differs: first the inputs, because they are
// the reason.
func (o Rebuild) build(
	ctx context.Context,
	b *images.Builder,
	img v1.Image,
	r *recipe.Recipe,
) (digest v1.Hash, differences []string,
	err error) {
	if len(r.Kernels) > 0 && len(o.Keys) == 0 {
		return digest, nil, failure.Errorf(
			failure.Usage,
			"the image has modules that were compiled ahead of time, and to compile them again is to run the compiler that "+
				"the provenance names: give --key, so that not anybody can name one",
		)
	}
	stated := *r
	if err := b.Localize(r, o.Base, o.Source); err != nil {
		return digest, nil, err
	}
	b.Signed, err = o.signatures(ctx, b, img, r)
	if err != nil {
		return digest, nil, err
	}
	again, err := b.Build(ctx, r)
	if err != nil {
		return digest, nil, err
	}
	digest, err = again.Digest()
	if err != nil {
		return digest, nil, err
	}
	differences = compareInputs(&stated, r)
	if is, err := img.Digest(); err != nil || is == digest {
		return digest, differences, err
	}
	content, err := compareImages(ctx, b.Layers(), img, again)
	return digest, append(differences, content...), err
}

// signatures returns those of the image's own modules, if they are signed.
func (o Rebuild) signatures(
	ctx context.Context,
	b *images.Builder,
	img v1.Image,
	r *recipe.Recipe,
) (*kernelmodules.Signatures, error) {
	if r.Signer == "" || len(r.Kernels) == 0 {
		return nil, nil //nolint:nilnil // nil is a build without signatures
	}
	n := slices.IndexFunc(
		o.Certificates,
		func(cert *x509.Certificate) bool { return sign.Fingerprint(cert.Raw) == r.Signer },
	)
	if n < 0 {
		return nil, failure.Errorf(
			failure.Usage,
			"its modules are signed: give --module-cert, with the certificate that has the SHA-256 %s; "+
				"their signatures are then checked and taken over, because only the key could make them again",
			r.Signer,
		)
	}
	taken, err := kernelmodules.SignaturesOf(ctx, b.Store, img, o.Certificates[n])
	return &taken, err
}
