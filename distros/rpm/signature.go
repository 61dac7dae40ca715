package rpm

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
	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

const (
	maxSignatures = 16        // of one file; repositories have one or two
	clockSkew     = time.Hour // how wrong this machine's clock may be
)

// strong lists the digests a signature may use; with MD5 and SHA-1, two texts with one signature can be made.
func strong(h crypto.Hash) bool {
	return slices.Contains([]crypto.Hash{crypto.SHA256, crypto.SHA384, crypto.SHA512, crypto.SHA3_256, crypto.SHA3_512}, h)
}

// trust checks the signature of a repomd.xml. One good signature of a trusted key is enough.
type trust struct {
	keys         openpgp.EntityList
	notes        []string // keys that could not be had, told when nothing verifies
	now          time.Time
	allowExpired bool // accept keys that have expired: archives of systems out of support are not signed anew
}

func newTrust(files [][]byte, notes []string, o Options) trust {
	t := trust{notes: notes, now: o.Now, allowExpired: o.AllowExpired}
	for _, data := range files {
		keys, err := parseKeys(data)
		if err != nil {
			t.notes = append(t.notes, err.Error())
		}
		t.keys = append(t.keys, keys...)
	}
	return t
}

// detached checks a text against its signatures, armoured or not.
func (t trust) detached(text, sig []byte) error {
	if bytes.HasPrefix(bytes.TrimSpace(sig), []byte("-----BEGIN")) {
		block, err := armor.Decode(bytes.NewReader(sig))
		if err == nil && block.Type != openpgp.SignatureType {
			err = fmt.Errorf("it is a %q", block.Type)
		}
		if err == nil {
			sig, err = io.ReadAll(block.Body)
		}
		if err != nil {
			return fmt.Errorf("%w: the signature is malformed: %w", ErrSignature, err)
		}
	}
	return t.check(text, sig)
}

// check tries the signatures one by one, each on its own: go-crypto would stop at the first whose key is known, which may
// be the expired one of two.
func (t trust) check(text, sigs []byte) error {
	var failures []string
	expired := false
	in := bytes.NewReader(sigs)
	for packets := packet.NewReader(in); in.Len() > 0; {
		start := len(sigs) - in.Len()
		p, err := packets.Next()
		raw := sigs[start : len(sigs)-in.Len()]
		if err != nil {
			failures = append(failures, err.Error())
			var unsupported pgperrors.UnsupportedError
			if errors.As(err, &unsupported) && len(failures) < maxSignatures && len(raw) > 0 {
				continue // an algorithm of the future beside one of today
			}
			break
		}
		if err = t.one(text, raw, p); err == nil {
			return nil
		}
		expired = expired || errors.Is(err, ErrExpired)
		if failures = append(failures, err.Error()); len(failures) == maxSignatures {
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
	if len(t.keys) == 0 {
		failures = append(failures, "no key is trusted for this source; name one of the base with gpgkey, or give it in the matrix")
	}
	return fmt.Errorf("%w: %s", cause, strings.Join(append(failures, t.notes...), "; "))
}

func (t trust) one(text, raw []byte, p packet.Packet) error {
	sig, ok := p.(*packet.Signature)
	if !ok || sig.IssuerKeyId == nil {
		return errors.New("a packet that is no signature with a key id")
	}
	key := fmt.Sprintf("key %016X", *sig.IssuerKeyId)
	if !strong(sig.Hash) {
		return fmt.Errorf("%s signed a weak digest (%v)", key, sig.Hash)
	}
	config := &packet.Config{Time: func() time.Time { return t.now.Add(clockSkew) }}
	_, signer, err := openpgp.VerifyDetachedSignature(t.keys, bytes.NewReader(text), bytes.NewReader(raw), config)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pgperrors.ErrUnknownIssuer):
		return fmt.Errorf("%s is not trusted here", key)
	case signer != nil && (errors.Is(err, pgperrors.ErrKeyExpired) || errors.Is(err, pgperrors.ErrSignatureExpired)):
		// The signature itself is right: go-crypto names the signer only then, and checks revocation before expiry.
		if t.allowExpired {
			return nil
		}
		return fmt.Errorf("%s or its signature has %w; an archive that is no longer maintained needs its expiry allowed", key, ErrExpired)
	}
	return fmt.Errorf("%s: %w", key, err)
}
