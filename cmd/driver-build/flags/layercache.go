package flags

import (
	"context"
	"crypto"
	"fmt"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/attestation"
	"github.com/driver-container/driver-container/images/description"
	"github.com/driver-container/driver-container/images/imagename"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/signature"
)

// noRepository is the value of --cache-from and --cache-to that names no repository.
const noRepository = "none"

// LayerCache says which repositories are the cache of layers.
type LayerCache struct {
	From []string
	To   string
	Keys []string // files
	keys []crypto.PublicKey
}

// AddTo declares the flags.
func (c *LayerCache) AddTo(f *pflag.FlagSet) {
	repository := session.Valid(imagename.CheckRepository).Or(noRepository)
	f.Var(
		session.Array(&c.From, repository),
		"cache-from",
		"`REGISTRY/PATH` to take finished layers from, or none (repeatable; default: where the image is pushed to)",
	)
	f.Var(
		session.String(&c.To, repository),
		"cache-to",
		"`REGISTRY/PATH` to leave finished layers in for later builds, or none (default: where the image is pushed to)",
	)
	session.Rare(f, func(f *pflag.FlagSet) {
		f.StringArrayVar(
			&c.Keys,
			"cache-key",
			nil,
			"FILE with public keys: take layers only from images that one of them, or --image-key, "+
				"signed (repeatable)",
		)
	})
}

// Check finds mistakes, and completes the flags. pushed is the repository that images are pushed
// to, "" for none. modules says that the build signs modules, signer signs its images; nil: it does
// not.
func (c *LayerCache) Check(
	pushed string,
	offline, modules bool,
	signer signature.Signer,
) (err error) {
	signs := modules || signer != nil
	if slices.Contains(c.From, noRepository) && len(c.From) > 1 {
		return session.Usagef("--cache-from none stands alone: it names no repository")
	}
	named := len(c.From) > 0 && c.From[0] != noRepository
	if named && offline {
		return session.Usagef("--cache-from downloads, and --offline forbids it: give one of them")
	}
	c.keys, err = PublicKeys("--cache-key", c.Keys...)
	if err != nil {
		return err
	}
	if signer != nil && signer.Public() != nil {
		c.keys = append(c.keys, signer.Public())
	}
	if signs && len(c.keys) == 0 && named {
		return session.Usagef(
			"--cache-from: a build that signs takes layers only from images with a signature that it can verify: " +
				"give --cache-key FILE with the public key of those images",
		)
	}
	switch {
	case offline || signs && len(c.keys) == 0 || len(c.From) > 0 && !named:
		c.From = nil
	case !named && pushed != "":
		c.From = []string{pushed}
	}
	switch c.To {
	case noRepository:
		c.To = ""
	case "":
		c.To = pushed
	}
	return nil
}

// Attach lets the builder of a session take layers from the repositories. needed says that the
// content of all layers is written to this machine.
func (c *LayerCache) Attach(ctx context.Context, s *session.Session, needed bool) {
	if len(c.From) > 0 || c.To != "" {
		finder := layer.NewFinder(
			ctx,
			layer.FinderOptions{
				Registry: s.Builder.Registry.Target(),
				From:     c.From,
				Keys:     c.keys,
				Needed:   needed,
				Observe:  s.Builder.Observe,
			},
		)
		s.Publisher = finder
		if len(c.From) > 0 {
			s.Builder.Finished = finder
		}
	}
}

// Complete sends what the repository that images are pushed to lost of them.
func (c *LayerCache) Complete(
	ctx context.Context,
	s *session.Session,
	pushed string,
	built []v1.Image,
) error {
	if s.Publisher == nil || pushed == "" {
		return nil
	}
	return s.Publisher.Complete(ctx, pushed, built)
}

// Publish leaves the layers of an artifact in the repository for later builds, and the artifact
// itself if it is not pushed there anyway. A registry that does not take them is no reason to fail:
// the step says so.
func (c *LayerCache) Publish(
	ctx context.Context,
	s *session.Session,
	pushed string,
	t oci.Artifact,
	built []v1.Image,
	p attestation.Publication,
) error {
	if c.To == "" {
		return nil
	}
	step := s.Builder.Observe.Begin(p.Tags[0], "layers for later builds")
	err := c.publish(ctx, s, pushed, t, built, p)
	if err != nil && ctx.Err() == nil {
		step.Note(fmt.Sprintf("warning: later builds do not find the layers in %s: %v", c.To, err))
		err = nil
	}
	return step.End(false, err)
}

func (c *LayerCache) publish(
	ctx context.Context,
	s *session.Session,
	pushed string,
	t oci.Artifact,
	built []v1.Image,
	p attestation.Publication,
) error {
	if c.To != pushed {
		p.Repository = c.To
		err := s.Publisher.Complete(ctx, c.To, built)
		if err != nil {
			return err
		}
		err = p.Push(ctx, s.Builder.Registry, t)
		if err != nil {
			return err
		}
	}
	for _, img := range built {
		err := s.Publisher.Publish(ctx, c.To, p.Tags[0], img, description.LayerName)
		if err != nil {
			return err
		}
	}
	return nil
}
