package rpmfile

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/driver-container/driver-container/distros/pgp"
)

// signature is an OpenPGP signature packet over binary data.
type signature struct {
	keyID   uint64
	hash    crypto.Hash
	created time.Time
	v4      *packet.Signature // version 4 or later
	v3      *signatureV3
}

// signatureV3 is a signature of version 3 (RFC 4880, 5.2.2). RHEL and its derivatives still sign
// with this version; go-crypto reads only later ones.
type signatureV3 struct {
	trailer []byte // hashed after the data
	start   []byte // the first bytes of the digest
	// rsa is the signature as a number; nil if it is of another kind, which nobody uses with strong
	// digests.
	rsa []byte
}

const tagSignature = 2 // OpenPGP's, of a packet

// parseSignature reads one signature packet and nothing else.
func parseSignature(data []byte) (signature, error) {
	in := bytes.NewReader(data)
	raw, err := packet.NewOpaqueReader(in).Next()
	if err != nil {
		return signature{}, fmt.Errorf("malformed signature: %w", err)
	}
	if in.Len() == 0 && raw.Tag == tagSignature && bytes.HasPrefix(raw.Contents, []byte{3}) {
		return parseV3(raw.Contents)
	}
	p, err := raw.Parse()
	if err != nil {
		return signature{}, fmt.Errorf("malformed signature: %w", err)
	}
	sig, ok := p.(*packet.Signature)
	if !ok || in.Len() > 0 || sig.IssuerKeyId == nil {
		return signature{}, errors.New(
			"malformed signature: want one packet, a signature with a key id",
		)
	}
	if sig.SigType != packet.SigTypeBinary {
		return signature{}, fmt.Errorf(
			"a signature of type %#x, want one of binary data",
			sig.SigType,
		)
	}
	for _, n := range sig.Notations {
		if n.IsCritical {
			return signature{}, fmt.Errorf("the signature has an unknown condition %.80q", n.Name)
		}
	}
	return signature{
		keyID:   *sig.IssuerKeyId,
		hash:    sig.Hash,
		created: sig.CreationTime,
		v4:      sig,
	}, nil
}

func parseV3(b []byte) (signature, error) {
	// version, length 5, type, 4 bytes of time, 8 of key id, key algorithm, hash algorithm, 2 of
	// the digest, bits, number
	if len(b) < 22 || b[1] != 5 || b[2] != byte(packet.SigTypeBinary) {
		return signature{}, errors.New("malformed signature of version 3")
	}
	hashes := map[byte]crypto.Hash{
		1:  crypto.MD5,
		2:  crypto.SHA1,
		8:  crypto.SHA256,
		9:  crypto.SHA384,
		10: crypto.SHA512,
	}
	algorithm := packet.PublicKeyAlgorithm(b[15])
	number := b[21:]
	isRSA := algorithm == packet.PubKeyAlgoRSA || algorithm == packet.PubKeyAlgoRSASignOnly
	if bits := int(binary.BigEndian.Uint16(b[19:])); isRSA && (bits+7)/8 != len(number) ||
		hashes[b[16]] == 0 {
		return signature{}, fmt.Errorf(
			"malformed signature of version 3: hash %d, %d bits in %d bytes",
			b[16],
			bits,
			len(number),
		)
	}
	if !isRSA {
		number = nil
	}
	return signature{
		keyID: binary.BigEndian.Uint64(
			b[7:],
		), hash: hashes[b[16]], created: time.Unix(int64(binary.BigEndian.Uint32(b[3:])), 0),
		v3: &signatureV3{trailer: b[2:7], start: b[17:19], rsa: number},
	}, nil
}

// check returns an error if the key did not make this signature of the data.
func (s signature) check(key *packet.PublicKey, data []byte) error {
	if s.v3 == nil {
		h, err := s.v4.PrepareVerify()
		if err != nil {
			return err
		}
		h.Write(data)
		return key.VerifySignature(h, s.v4)
	}
	public, ok := key.PublicKey.(*rsa.PublicKey)
	if !ok || s.v3.rsa == nil {
		return errors.New("of version 3, only RSA signatures by RSA keys are supported")
	}
	h := s.hash.New()
	h.Write(data)
	h.Write(s.v3.trailer)
	sum := h.Sum(nil)
	if !bytes.Equal(sum[:2], s.v3.start) {
		return errors.New("the signed data is another")
	}
	// The number has no leading zeros in OpenPGP, but PKCS#1 needs them.
	if short := public.Size() - len(s.v3.rsa); short >= 0 {
		return rsa.VerifyPKCS1v15(public, s.hash, sum, append(make([]byte, short), s.v3.rsa...))
	}
	return errors.New("the signature is longer than the key")
}

// signer finds the key that made the signature, checks that it is accepted, and returns its primary
// key's fingerprint.
func (s signature) signer(keys pgp.Ring, fingerprints []string, data []byte) (string, error) {
	if !pgp.Strong(s.hash) {
		return "", fmt.Errorf(
			"key %016X signed a weak digest (%v); such signatures can be forged",
			s.keyID,
			s.hash,
		)
	}
	name := fmt.Sprintf("key %016X", s.keyID)
	failure := fmt.Errorf(
		"%s is not among the %d keys that are trusted here",
		name,
		len(keys.Fingerprints()),
	)
	signer := ""
	for _, key := range candidates(keys.Keys, s.keyID) {
		primary := pgp.Fingerprint(key.Entity.PrimaryKey)
		if len(fingerprints) > 0 && !slices.Contains(fingerprints, primary) &&
			!slices.Contains(fingerprints, pgp.Fingerprint(key.PublicKey)) {
			failure = fmt.Errorf("%s (%s) is trusted here, but not for this package", name, primary)
			continue
		}
		if err := s.check(key.PublicKey, data); err != nil {
			failure = fmt.Errorf("%s: %w", name, err)
			continue
		}
		err := s.usable(key)
		if err != nil {
			failure = fmt.Errorf("%s (%s): %w", name, primary, err)
		} else {
			signer = primary
		}
		if revoked(key, s.created) { // whatever other copies of the key contain
			return "", failure
		}
	}
	if signer != "" {
		return signer, nil
	}
	return "", failure
}

func (s signature) usable(key openpgp.Key) error {
	now := time.Now()
	if s.created.After(now.Add(pgp.ClockSkew)) {
		return fmt.Errorf(
			"the signature is of the future, %s; is this machine's clock right?",
			s.created.UTC().Format(time.DateTime),
		)
	}
	if s.v4 != nil && s.v4.SigLifetimeSecs != nil && *s.v4.SigLifetimeSecs > 0 &&
		s.v4.SigExpired(now.Add(pgp.ClockSkew)) {
		return errors.New("the signature has expired")
	}
	return usable(key, s.created)
}
