// Package pgp verifies OpenPGP signatures of the indexes of package repositories of every family,
// and reads files of public keys. It is the only place that decides what counts as a signature.
//
// It does not decide which keys to trust, and does not know the signatures inside of packages.
package pgp

import (
	"bytes"
	"crypto"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/driver-container/driver-container/distros/failure"
)

const (
	// Signatures of one text. Archives have up to 4, one per generation of keys.
	maxSignatures = 16

	// ClockSkew is the assumed largest error of this machine's clock.
	ClockSkew = time.Hour
)

// Sentinels for callers to test.
var (
	// ErrSignature says that no key that is trusted for a text signed it.
	ErrSignature = failure.New(failure.Content, "no trusted signature")
	// ErrExpired says that the signature is right, but it or its key has expired.
	ErrExpired = failure.New(failure.Content, "expired")
)

// Strong reports whether a signature may use a digest: with MD5 and SHA-1, two texts with one
// signature can be made.
func Strong(h crypto.Hash) bool {
	return slices.Contains(
		[]crypto.Hash{
			crypto.SHA256,
			crypto.SHA384,
			crypto.SHA512,
			crypto.SHA3_256,
			crypto.SHA3_512,
		},
		h,
	)
}

// Trust verifies signatures. One good signature of a trusted key is enough, because archives sign
// with several generations of keys, of which a base knows only some.
type Trust struct {
	Ring // its notes are part of the error when nothing verifies
	Now  time.Time
	// AllowExpired accepts expired keys: the archives of unsupported systems are not signed again.
	AllowExpired bool
	Hint         string // how to give a key; for the error when there is none at all
}

// Clearsigned returns the signed text of a file that has only text and signature. It tolerates no
// text before or after the signed part, so that no reader can take another part for the signed one.
func (t Trust) Clearsigned(data []byte) ([]byte, error) {
	if !bytes.HasPrefix(data, []byte("-----BEGIN PGP SIGNED MESSAGE-----")) {
		return nil, fmt.Errorf("%w: it does not begin with a signed message", ErrSignature)
	}
	block, rest := clearsign.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%w: the signed message is malformed", ErrSignature)
	}
	if len(bytes.TrimSpace(rest)) > 0 {
		return nil, fmt.Errorf("%w: there is text after the signature", ErrSignature)
	}
	sigs, err := io.ReadAll(block.ArmoredSignature.Body)
	if err != nil {
		return nil, fmt.Errorf("%w: the signature is malformed: %w", ErrSignature, err)
	}
	return block.Plaintext, t.check(block.Bytes, sigs)
}

// Detached verifies a text against a file of signatures, armoured or not.
func (t Trust) Detached(text, sig []byte) error {
	if !bytes.HasPrefix(bytes.TrimSpace(sig), []byte("-----BEGIN")) {
		return t.check(text, sig)
	}
	block, err := armor.Decode(bytes.NewReader(sig))
	if err != nil {
		return fmt.Errorf("%w: the signature is malformed: %w", ErrSignature, err)
	}
	if block.Type != openpgp.SignatureType {
		return fmt.Errorf("%w: the signature is malformed: it is a %q", ErrSignature, block.Type)
	}
	sig, err = io.ReadAll(block.Body)
	if err != nil {
		return fmt.Errorf("%w: the signature is malformed: %w", ErrSignature, err)
	}
	return t.check(text, sig)
}

// check tries each signature alone, because go-crypto would stop at the first one with a known key,
// which may be the expired one of two.
func (t Trust) check(text, sigs []byte) error {
	var failures []string
	expired := false
	in := bytes.NewReader(sigs)
	for packets := packet.NewReader(in); in.Len() > 0; {
		start := len(sigs) - in.Len()
		p, err := packets.Next()
		raw := sigs[start : len(sigs)-in.Len()]
		if err != nil {
			failures = append(failures, err.Error())
			if _, ok := errors.AsType[pgperrors.UnsupportedError](err); ok &&
				len(failures) < maxSignatures &&
				len(raw) > 0 {
				continue // an algorithm of the future beside one of today
			}
			break
		}
		err = t.one(text, raw, p)
		if err == nil {
			return nil
		}
		expired = expired || errors.Is(err, ErrExpired)
		failures = append(failures, err.Error())
		if len(failures) == maxSignatures {
			break
		}
	}
	cause := ErrSignature
	if expired {
		cause = ErrExpired
	}
	if len(failures) == 0 {
		failures = []string{"there is no signature"}
	}
	if len(t.Keys) == 0 {
		failures = append(failures, "no key is trusted for this source; "+t.Hint)
	}
	return fmt.Errorf("%w: %s", cause, strings.Join(append(failures, t.Notes...), "; "))
}

func (t Trust) one(text, raw []byte, p packet.Packet) error {
	sig, ok := p.(*packet.Signature)
	if !ok || sig.IssuerKeyId == nil {
		return errors.New("a packet that is no signature with a key id")
	}
	key := fmt.Sprintf("key %016X", *sig.IssuerKeyId)
	if !Strong(sig.Hash) {
		return fmt.Errorf("%s signed a weak digest (%v)", key, sig.Hash)
	}
	for _, known := range t.Keys.KeysById(*sig.IssuerKeyId) {
		err := CheckLength(known.PublicKey)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	config := &packet.Config{Time: func() time.Time { return t.Now.Add(ClockSkew) }}
	_, signer, err := openpgp.VerifyDetachedSignature(
		t.Keys,
		bytes.NewReader(text),
		bytes.NewReader(raw),
		config,
	)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pgperrors.ErrUnknownIssuer):
		return fmt.Errorf("%s is not trusted here", key)
	case signer != nil && (errors.Is(err, pgperrors.ErrKeyExpired) || errors.Is(err, pgperrors.ErrSignatureExpired)):
		// The signature itself is right: only then does go-crypto name the signer, and it checks
		// revocation before expiry.
		if t.AllowExpired {
			return nil
		}
		return fmt.Errorf(
			"%s or its signature has %w; an archive that is no longer maintained needs its expiry allowed",
			key,
			ErrExpired,
		)
	}
	return fmt.Errorf("%s: %w", key, err)
}
