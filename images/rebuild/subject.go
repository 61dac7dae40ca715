package rebuild

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/provenance"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/signature"
)

// maxProvenances bounds how often an image is built: each of its provenances that differs is tried.
const maxProvenances = 4

// subject is an image to build again, and what belongs to it.
type subject struct {
	arch   string
	digest v1.Hash
	image  v1.Image
	owners []signature.Subject // the image, and the index that it is in
}

type subjects struct {
	index  v1.Hash // zero: the reference names an image
	images []subject
}

// open reads what a reference names: an image, or the images of an index. arch selects one of an index.
func open(ctx context.Context, c *registry.Client, ref, arch string) (all subjects, err error) {
	top, err := c.Open(ctx, ref)
	if err != nil {
		return all, fmt.Errorf("open %s: %w", ref, err)
	}
	digest, err := top.Digest()
	if err != nil {
		return all, fmt.Errorf("open %s: %w", ref, err)
	}
	if !oci.IsLocal(ref) {
		before, _, _ := strings.Cut(ref, "@")
		ref = before + "@" + digest.String() // the tag may move
	}
	have, err := c.Attachments(ctx, ref)
	if err != nil {
		return all, fmt.Errorf("open %s: %w", ref, err)
	}
	missing := error(nil)
	for _, a := range distros.Archs() {
		if arch != "" && arch != a.Name {
			continue
		}
		base, err := c.Base(ctx, ref, a.Name)
		if _, absent := errors.AsType[*oci.PlatformError](err); absent {
			missing = err
			continue
		}
		if err != nil {
			return all, fmt.Errorf("open %s: %w", ref, err)
		}
		s := subject{arch: a.Name, digest: base.Digest, image: base.Image, owners: []signature.Subject{owner(base.Digest, have)}}
		if base.Digest != digest {
			all.index = digest
			s.owners = append(s.owners, owner(digest, have))
		}
		all.images = append(all.images, s)
	}
	if len(all.images) == 0 {
		return all, fmt.Errorf("open %s: %w", ref, missing)
	}
	return all, nil
}

func owner(digest v1.Hash, have []oci.Attachment) signature.Subject {
	s := signature.Subject{Descriptor: v1.Descriptor{Digest: digest}}
	for _, a := range have {
		if a.Subject == digest {
			s.Attachments = append(s.Attachments, a)
		}
	}
	return s
}

// statement is a provenance that an image can be built from.
type statement struct {
	where  string // ".att, key 0123456789ab"
	body   []byte
	recipe *recipe.Recipe
	run    provenance.Run
}

// provenances returns the different provenances of an image, or says why there is none. The error is that of
// what could not be fetched.
func (s subject) provenances(keys []crypto.PublicKey) (found []statement, missing string, err error) {
	seen, faults := map[string]bool{}, []string{}
	fault := func(where string, err error) { faults = append(faults, where+": "+err.Error()) }
	for _, o := range s.owners {
		attested, err := attestations(o, keys)
		if err != nil {
			return nil, "", err
		}
		for _, f := range attested {
			switch {
			case f.Err != nil:
				fault(f.Where, f.Err)
				continue
			case f.Predicate.Type != provenance.PredicateType || seen[string(f.Predicate.Body)]:
				continue
			}
			seen[string(f.Predicate.Body)] = true
			r, run, err := provenance.Read(f.Predicate.Body)
			if err == nil && r.Arch != s.arch && o.Descriptor.Digest == s.digest {
				err = fmt.Errorf("it is about an image for %s", r.Arch)
			}
			if err != nil {
				fault(f.Where, err)
				continue
			}
			if r.Arch == s.arch { // an index has those of all its images
				found = append(found, statement{where: where(f), body: f.Predicate.Body, recipe: r, run: run})
			}
		}
	}
	switch {
	case len(found) > maxProvenances:
		return nil, fmt.Sprintf("has %d different provenances, and at most %d are tried: remove those that are not true", len(found), maxProvenances), nil
	case len(found) > 0:
		return found, "", nil
	}
	return nil, noProvenance(faults), nil
}

// attestations returns what is attested of an image or an index, by the keys if there are any.
func attestations(o signature.Subject, keys []crypto.PublicKey) ([]signature.Finding, error) {
	if len(keys) == 0 {
		return signature.Unverified(o)
	}
	reports, err := signature.Verify([]signature.Subject{o}, keys)
	if err != nil {
		return nil, err
	}
	return reports[0].Attestations, nil
}

func where(f signature.Finding) string {
	if len(f.Keys) == 0 {
		return f.Where
	}
	return f.Where + ", key " + f.Keys[0][:min(len(f.Keys[0]), 12)]
}

// maxFaults bounds the length of a message.
const maxFaults = 5

// noProvenance says why none of the documents is one, and what to do.
func noProvenance(faults []string) string {
	text := "has no provenance to build it from"
	if len(faults) > 0 {
		text += " (" + strings.Join(faults[:min(len(faults), maxFaults)], "; ") + ")"
	}
	return text + ": copy the image with its attestations (driver-build push), have its builder attest one (--provenance of a build), or build it with its matrix " +
		"and lock (driver-build --lock) and compare the digest"
}
