package attestation

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/signature"
)

// ErrSigner says that a token or a program did not sign.
var ErrSigner = failure.New(failure.Step, "the signer failed")

// Once returns a signer that asks s for each signature only once, and for one after the other: an image that
// goes to several places gets the same signatures everywhere, and a person may have to touch a token for
// each. Its errors are ErrSigner.
func Once(s signature.Signer) signature.Signer {
	return &once{Signer: s, made: map[[sha256.Size]byte][]byte{}}
}

type once struct {
	signature.Signer
	mu   sync.Mutex
	made map[[sha256.Size]byte][]byte // by the SHA-256 of the message
}

func (o *once) Sign(ctx context.Context, message []byte) (signed []byte, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	name := sha256.Sum256(message)
	if o.made[name] == nil {
		if signed, err = o.Signer.Sign(ctx, message); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrSigner, err)
		}
		o.made[name] = signed
	}
	return o.made[name], nil
}
