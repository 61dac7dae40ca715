package supplychain

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"os"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/attestation"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/signature"
)

const parallelSigners, parallelRounds = 8, 8

// TestParallelSigners: programs that sign one image at the same time lose nothing that another signed, whether
// the registry has the referrers API or not.
func TestParallelSigners(t *testing.T) {
	t.Parallel()
	hosts := map[string]string{"referrers": RegistryWithReferrers(t)}
	if os.Getenv("DRIVER_E2E") == "1" {
		hosts["distribution"] = RegistryWithoutReferrers(t)
	}
	for name, host := range hosts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			jobs, ctx := errgroup.WithContext(t.Context())
			jobs.SetLimit(5)
			for round := range parallelRounds {
				ref := fmt.Sprintf("%s/gpu/driver:%d", host, round)
				c := newProject(t).Client
				_, _, err := c.Push(t.Context(), ref, imagetest.RandomImage(t, "amd64", 100, ref))
				require.NoError(t, err)
				jobs.Go(func() error {
					if err := signInParallel(ctx, t.TempDir(), ref); err != nil {
						return fmt.Errorf("round %d: %w", round, err)
					}
					return nil
				})
			}
			assert.NoError(t, jobs.Wait())
		})
	}
}

// signInParallel signs, attests and attaches referrers with clients that know nothing of each other, and looks
// for all of that.
func signInParallel(ctx context.Context, dir, ref string) error {
	open := func(ctx context.Context, n int) (*registry.Client, *attestation.Finished, error) {
		store, err := fetch.OpenStore(fmt.Sprint(dir, "/", n))
		if err != nil {
			return nil, nil, err
		}
		c, err := registry.New(registry.Options{Store: store})
		if err != nil {
			return nil, nil, err
		}
		image, err := attestation.Open(ctx, c, ref)
		return c, image, err
	}
	var keys []crypto.PublicKey
	jobs, jctx := errgroup.WithContext(ctx)
	for n := range parallelSigners {
		public, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return err
		}
		keys = append(keys, public)
		jobs.Go(func() error {
			c, image, err := open(jctx, n)
			if err != nil {
				return err
			}
			defer c.Close()
			signer, err := signature.NewKeySigner(private)
			if err != nil {
				return err
			}
			document := attestation.Document{Type: fmt.Sprint("urn:document:", n), Body: fmt.Appendf(nil, `{"of":%d}`, n), Referrer: "application/json"}
			plan, err := attestation.Publication{Signer: signer, Format: signature.Legacy, Documents: []attestation.Document{document}}.For(image, "", nil, nil)
			if err != nil {
				return err
			}
			all, err := plan.Attachments(jctx, image.Artifact, image.Have)
			if err != nil {
				return err
			}
			return image.Attach(jctx, c, all)
		})
	}
	if err := jobs.Wait(); err != nil {
		return err
	}
	c, image, err := open(ctx, parallelSigners)
	if err != nil {
		return err
	}
	defer c.Close()
	reports, err := signature.Verify([]signature.Subject{{Descriptor: v1.Descriptor{Digest: image.Digest}, Attachments: image.Have}}, keys)
	if err != nil {
		return err
	}
	signatures, attestations, referrers := reports[0].Signatures, reports[0].Attestations, 0
	for _, a := range image.Have {
		if a.Tag == "" {
			referrers++
		}
	}
	if len(signatures) != 2*parallelSigners || len(attestations) != parallelSigners || referrers != parallelSigners {
		return fmt.Errorf("%d signatures (repository and tag), %d attestations and %d referrers of %d signers", len(signatures), len(attestations), referrers, parallelSigners)
	}
	return nil
}
