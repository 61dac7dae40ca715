// Package rebuild proves images: it builds an image again from its own provenance, and says in words in what
// the result differs. The inputs come from the cache, or from where the provenance says; nothing is pushed
// and no layer of an earlier build is used.
//
// It does not judge an image's fitness: package verify does.
package rebuild

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/modsign"
	"github.com/driver-container/driver-container/images/provenance"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/verify"
	"github.com/driver-container/driver-container/kmod/sign"
)

// Rule is that of the findings.
const Rule = "rebuild"

// Options say what is trusted, and where the inputs are that a provenance does not locate.
type Options struct {
	Keys         []crypto.PublicKey  // one of them must have signed the provenance; none: anybody may have written it
	Certificates []*x509.Certificate // of the keys that signed modules of the image
	Arch         string              // one image of an index; "": all
	Base         string              // where the base image is: a reference or an image on this machine; "": its name by digest
	Source       string              // URL of the driver's .run archive; "": that of the provenance
}

// rebuilder is the state of one call.
type rebuilder struct {
	Options
	builder *images.Builder
}

// Images builds the image, or every image of the index, that a reference names again, and compares. Each
// finding is a line; errors are differences, and images without a provenance. The error is that of what could
// not be fetched or built, or of kind failure.Usage for what the caller has to give.
func Images(ctx context.Context, b *images.Builder, ref string, o Options) (findings []verify.Finding, err error) {
	subjects, err := open(ctx, b.Registry, ref, o.Arch)
	if err != nil {
		return nil, err
	}
	records, remove, err := layer.WorkFolder(b.Store)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	if records, err = filepath.Rel(b.Store.Dir(), records); err != nil {
		return nil, err
	}
	r := rebuilder{o, fresh(b, records)}
	if len(o.Keys) == 0 {
		findings = append(findings, verify.Finding{Severity: verify.Warning, Rule: Rule, Message: "the provenance is not authenticated: " +
			"anyone who may push to the repository can have written it; give --key with the signer's public key"})
	}
	var same []v1.Image
	for _, s := range subjects.images {
		img, found, err := r.one(ctx, s)
		findings = append(findings, found...)
		if err != nil {
			return findings, fmt.Errorf("build %s (%s) again: %w", s.digest, s.arch, err)
		}
		if img != nil {
			same = append(same, img)
		}
	}
	if subjects.index == (v1.Hash{}) || len(same) < len(subjects.images) || o.Arch != "" {
		return findings, nil
	}
	f, err := compareIndex(subjects.index, same)
	return append(findings, f), err
}

// fresh returns a builder that takes content, and no layers, from the cache of another one. records is the
// path of an empty folder in that cache.
func fresh(b *images.Builder, records string) *images.Builder {
	return &images.Builder{
		Planner:  images.Planner{Env: b.Env, Registry: b.Registry, Observe: b.Observe, Records: records},
		Binaries: b.Binaries, Info: b.Info, Runner: b.Runner, Compiles: b.Compiles,
	}
}

// one builds one image again. The image is nil if it is not the same.
func (r *rebuilder) one(ctx context.Context, s subject) (v1.Image, []verify.Finding, error) {
	statements, missing, err := s.provenances(r.Keys)
	if err != nil {
		return nil, nil, err
	}
	if missing != "" {
		return nil, []verify.Finding{problem("%s (%s) %s", s.digest, s.arch, missing)}, nil
	}
	var findings []verify.Finding
	var failed []error
	for _, p := range statements {
		what := fmt.Sprintf("%s (%s): built again from its provenance (%s)", s.digest, s.arch, p.where)
		img, differences, err := r.try(ctx, s, p)
		switch {
		case errors.Is(err, modsign.ErrOther):
			findings = append(findings, problem("%s: %s", what, err))
		case err != nil:
			failed = append(failed, err) // another provenance may be true
		case len(differences) == 0:
			return img, []verify.Finding{{Severity: verify.Note, Rule: Rule, Message: what + ", with the same digest"}}, nil
		default:
			digest, err := img.Digest()
			if err != nil {
				return nil, findings, err
			}
			if what += ", its digest is " + digest.String(); digest == s.digest {
				what += ", too, but what the provenance says is not true"
			}
			findings = append(findings, problem("%s", what))
			for _, text := range differences {
				findings = append(findings, problem("%s: %s", s.arch, text))
			}
		}
	}
	return nil, findings, errors.Join(failed...)
}

// try builds an image from one provenance, and says what differs: first the inputs, because they are the
// reason.
func (r *rebuilder) try(ctx context.Context, s subject, p statement) (v1.Image, []string, error) {
	of, img, err := r.build(ctx, s, p.recipe)
	if err != nil {
		return nil, nil, err
	}
	digest, err := img.Digest()
	if err != nil {
		return nil, nil, err
	}
	again, err := provenance.New(of, p.run).Encode()
	if err != nil {
		return nil, nil, err
	}
	differences, err := provenance.Compare(p.body, again)
	if err != nil || digest == s.digest {
		return img, differences, err
	}
	content, err := compareImages(ctx, r.builder.Layers(), s.image, img)
	return img, append(differences, content...), err
}

func problem(format string, args ...any) verify.Finding {
	return verify.Finding{Severity: verify.Error, Rule: Rule, Message: fmt.Sprintf(format, args...)}
}

// build builds the image of a recipe with what this machine has of its own: programs and version of
// driver-build. It returns the recipe that it went by.
func (r *rebuilder) build(ctx context.Context, s subject, of *recipe.Recipe) (*recipe.Recipe, v1.Image, error) {
	if len(of.Kernels) > 0 && len(r.Keys) == 0 {
		return nil, nil, failure.Errorf(failure.Usage, "the image has modules that were compiled ahead of time, and to compile them again is to run the compiler that "+
			"the provenance names: give --key, so that not anybody can name one")
	}
	made := *of
	if err := r.locate(&made); err != nil {
		return nil, nil, err
	}
	programs, err := r.builder.Binaries(of.Arch)
	if err != nil {
		return nil, nil, err
	}
	made.Schema, made.Builder, made.Entrypoint = recipe.Version, r.builder.Info, nil
	for _, p := range programs {
		if slices.ContainsFunc(of.Entrypoint, func(b recipe.Binary) bool { return b.Name == p.Name }) {
			made.Entrypoint = append(made.Entrypoint, p)
		}
	}
	if r.builder.Signed, err = r.signatures(ctx, s, of); err != nil {
		return nil, nil, err
	}
	img, err := r.builder.Build(ctx, &made)
	return &made, img, err
}

// locate says where the base and the archive are.
func (r *rebuilder) locate(of *recipe.Recipe) error {
	switch {
	case r.Base != "":
		of.Base.Location = r.Base
	case of.Base.Name == "":
		return failure.Errorf(failure.Usage, "the base was an image on the machine that built: give --base, with the image that has the digest %s", of.Base.Digest)
	default:
		of.Base.Location = of.Base.Name + "@" + of.Base.Digest
	}
	if err := r.locateToolkits(of); err != nil {
		return err
	}
	archive := of.Source.Archive()
	if archive == nil {
		return nil
	}
	file := *archive
	of.Source = of.Source.WithArchive(&file)
	switch {
	case r.Source != "":
		file.URL = r.Source
	case provenance.IsWeb(file.URL):
	case r.builder.Store.Has(file.SHA256):
		file.URL = "file://" + r.builder.Store.Path(file.SHA256) // never a path that the provenance names
	default:
		return failure.Errorf(failure.Usage, "the driver's archive was a file on the machine that built: give --source, with the file that has the SHA-256 %s", file.SHA256)
	}
	return nil
}

// locateToolkits says where the images are that the modules were compiled in.
func (r *rebuilder) locateToolkits(of *recipe.Recipe) error {
	of.Kernels = slices.Clone(of.Kernels)
	for i, k := range of.Kernels {
		if k.Toolkit == nil {
			continue
		}
		image := *k.Toolkit
		if image.Name == "" {
			return failure.Errorf(failure.Usage, "the modules for kernel %s were compiled in an image that was a file of the machine that built, with the digest %s: "+
				"push it to a registry and build from there, so that others can build again", k.Release, image.Digest)
		}
		image.Location = image.Name + "@" + image.Digest
		of.Kernels[i].Toolkit = &image
	}
	return nil
}

// signatures returns those of the image's own modules, if they are signed.
func (r *rebuilder) signatures(ctx context.Context, s subject, of *recipe.Recipe) (*modsign.Signatures, error) {
	if of.Signer == "" || len(of.Kernels) == 0 {
		return nil, nil //nolint:nilnil // nil is a build without signatures
	}
	for _, cert := range r.Certificates {
		if sign.Fingerprint(cert.Raw) == of.Signer {
			taken, err := modsign.SignaturesOf(ctx, r.builder.Store, s.image, cert)
			return &taken, err
		}
	}
	return nil, failure.Errorf(failure.Usage, "its modules are signed: give --sign-cert, with the certificate that has the SHA-256 %s; "+
		"their signatures are then checked and taken over, because only the key could make them again", of.Signer)
}
