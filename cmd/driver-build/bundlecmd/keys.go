package bundlecmd

import (
	"context"
	"crypto"
	"fmt"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/signature"
)

// signer returns what signs a bundle, nil without a key. The caller calls closer.
func signer(a *session.App, key *flags.ImageKey) (_ bundle.Signer, closer func() error, err error) {
	with, closer, err := imageSigner(a, key)
	if err != nil || with == nil {
		return nil, closer, err
	}
	return func(ctx context.Context, subject v1.Descriptor) (oci.Attachment, error) {
		request := signature.Request{Subjects: []signature.Subject{{Descriptor: subject}}, Format: signature.Bundle}
		all, err := signature.Sign(ctx, request, with)
		if err != nil {
			return oci.Attachment{}, err
		}
		if len(all) != 1 {
			return oci.Attachment{}, fmt.Errorf("%d signatures were made, one is wanted", len(all))
		}
		return all[0], nil
	}, closer, nil
}

// imageSigner returns what signs with a key, nil without one. The caller calls closer.
func imageSigner(a *session.App, key *flags.ImageKey) (_ *signature.KeySigner, closer func() error, err error) {
	private, closer, err := key.Load(a.Getenv)
	if err != nil || private == nil {
		return nil, closer, err
	}
	with, err := signature.NewKeySigner(private)
	if err != nil {
		return nil, closer, session.Usagef("--image-key: %w", err)
	}
	return with, closer, nil
}

// verifier returns what judges the signature of a bundle, nil if it does not matter, and the keys that it trusts.
func verifier(trust *flags.Trust) (bundle.Verifier, []crypto.PublicKey, error) {
	keys, err := trust.Load(time.Now())
	if err != nil || trust.Unsigned {
		return nil, nil, err
	}
	return func(_ context.Context, subject v1.Descriptor, found oci.Attachment) error {
		reports, err := signature.Verify([]signature.Subject{{Descriptor: subject, Attachments: []oci.Attachment{found}}}, keys)
		if err != nil {
			return err
		}
		return reports[0].Err()
	}, keys, nil
}
