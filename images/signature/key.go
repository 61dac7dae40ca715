package signature

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"

	"github.com/driver-container/driver-container/distros/failure"
)

// Signer makes signatures. Sign of this package verifies each of them, if the public key is known.
type Signer interface {
	// Sign returns the signature over a message: RSA PKCS#1 v1.5 or ECDSA (in ASN.1) of its
	// SHA-256, or pure Ed25519.
	Sign(ctx context.Context, message []byte) ([]byte, error)
	// Public returns the key that verifies the signatures; nil if it is not known.
	Public() crypto.PublicKey
}

var keyKinds = []string{
	"ECDSA on P-256",
	"ECDSA on P-384",
	"RSA of 2048 bits",
	"RSA of 3072 bits",
	"RSA of 4096 bits",
	"Ed25519",
}

// CheckKey refuses keys whose signatures not all verifiers of images can check.
func CheckKey(key crypto.PublicKey) error {
	kind := fmt.Sprintf("%T", key)
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		kind = "ECDSA on " + k.Curve.Params().Name
	case *rsa.PublicKey:
		kind = fmt.Sprintf("RSA of %d bits", k.N.BitLen())
	case ed25519.PublicKey:
		kind = "Ed25519"
	}
	if slices.Contains(keyKinds, kind) {
		return nil
	}
	return fmt.Errorf(
		"images are signed with ECDSA on P-256 or P-384, RSA of 2048, 3072 or 4096 bits, or Ed25519; this key is %s",
		kind,
	)
}

// KeyID returns the SHA-256 of a public key (PKIX, DER) in hex, as
// "openssl pkey -pubin -outform DER | sha256sum" prints it.
func KeyID(key crypto.PublicKey) (string, error) {
	sum, err := fingerprint(key)
	return hex.EncodeToString(sum), err
}

func fingerprint(key crypto.PublicKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	sum := sha256.Sum256(der)
	return sum[:], err
}

// KeySigner signs with a private key, which may be in a token.
type KeySigner struct{ crypto.Signer }

// NewKeySigner checks that verifiers of images can use the key.
func NewKeySigner(key crypto.Signer) (*KeySigner, error) {
	if err := CheckKey(key.Public()); err != nil {
		return nil, err
	}
	return &KeySigner{key}, nil
}

// Sign signs the message. It hashes with SHA-256 whatever the curve, because verifiers expect that.
func (s *KeySigner) Sign(_ context.Context, message []byte) ([]byte, error) {
	if _, pure := s.Public().(ed25519.PublicKey); pure {
		return s.Signer.Sign(rand.Reader, message, crypto.Hash(0))
	}
	digest := sha256.Sum256(message)
	return s.Signer.Sign(rand.Reader, digest[:], crypto.SHA256)
}

// Once returns a signer that asks s for each signature only once, and for one after the other: an
// image that goes to several places gets the same signatures everywhere, and a person may have to
// touch a token for each. Its errors are of kind failure.Step.
func Once(s Signer) Signer {
	return &once{Signer: s, made: map[string][]byte{}}
}

type once struct {
	Signer
	mu   sync.Mutex
	made map[string][]byte // by the message's name
}

func (o *once) Sign(ctx context.Context, message []byte) (signed []byte, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	name := messageName(message)
	if o.made[name] == nil {
		signed, err = o.Signer.Sign(ctx, message)
		if err != nil {
			return nil, failure.Errorf(failure.Step, "the signer failed: %w", err)
		}
		o.made[name] = signed
	}
	return o.made[name], nil
}

// fits says whether the key made the signature over the message.
func fits(key crypto.PublicKey, message, signature []byte) bool {
	digest := sha256.Sum256(message)
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(k, digest[:], signature)
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(k, crypto.SHA256, digest[:], signature) == nil
	case ed25519.PublicKey:
		return ed25519.Verify(k, message, signature)
	}
	return false
}
