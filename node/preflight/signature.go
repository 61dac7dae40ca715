package preflight

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"os"

	"github.com/driver-container/driver-container/kmod/sign"
	"github.com/driver-container/driver-container/node/keyrings"
)

// Verdict is the result of the kernel's check of a module's signature, as predicted here.
type Verdict string

// The verdicts. The kernel's reaction depends on whether it enforces signatures, see effect
// (kernel/module/signing.c of 6.1; every row was observed there).
const (
	Trusted         Verdict = "trusted"              // signed by a key of the kernel
	ProbablyTrusted Verdict = "probably-trusted"     // signed by a key of that name
	Unsigned        Verdict = "unsigned"             //
	ForeignKey      Verdict = "foreign-key"          // signed by a certificate that the kernel does not have
	ProbablyForeign Verdict = "probably-foreign-key" // the certificate is unknown here, and no key of the kernel has its name
	KeysUnseen      Verdict = "keyrings-not-seen"    // the keys of the kernel are not visible
	NoHash          Verdict = "hash-not-available"   // the kernel cannot compute the hash
	HashUnseen      Verdict = "hash-not-seen"        // it is unknown whether the kernel can compute the hash
	Unsupported     Verdict = "not-supported"        // not PKCS#7, or an unknown algorithm
	Malformed       Verdict = "malformed"            // EBADMSG
	Changed         Verdict = "changed"              // signed by a key that the kernel knows, but the content has changed
	Unread          Verdict = "not-read"             // the file cannot be read
)

// effect returns what a verdict means for a start.
func (v Verdict) effect(t trust) Status {
	unsure := !t.strict() && t.secureBoot && !t.known
	switch v {
	case Trusted, ProbablyTrusted:
		return OK
	// A kernel with support for signatures always refuses these modules.
	case Malformed, Changed:
		if t.known || t.strict() {
			return Blocked
		}
		return Warning
	case Unsigned, ForeignKey, NoHash, Unsupported:
		if t.strict() {
			return Blocked
		}
	case Unread:
		return Warning
	case ProbablyForeign, KeysUnseen, HashUnseen:
		if t.strict() {
			return Warning
		}
	}
	if unsure {
		return Warning
	}
	return OK
}

// Signature describes the signature of one module.
type Signature struct {
	Module  string  `json:"module"`
	Signer  string  `json:"signer,omitempty"` // the certificate's name, or the issuer's if only that is known
	KeyID   string  `json:"keyID,omitempty"`  // in the kernel's format
	Hash    string  `json:"hash,omitempty"`
	Verdict Verdict `json:"verdict"`
	Keyring string  `json:"keyring,omitempty"` // the keyring that has the key
	Detail  string  `json:"detail,omitempty"`
}

// signatureOf predicts the verdict for a module's file.
func (in *Input) signatureOf(ctx context.Context, m Loading, keys keyrings.Trusted, t trust) Signature {
	s := Signature{Module: m.Name}
	der, err := readSignature(m.Path)
	var d sign.Description
	if err == nil && der != nil {
		d, err = sign.Describe(der)
	}
	switch {
	case err != nil:
		s.Verdict, s.Detail = unreadable(err), err.Error()
		return s
	case der == nil:
		s.Verdict = Unsigned
		return s
	}
	cert := in.Certificate
	if cert != nil && !namesSigner(d, cert) {
		cert = nil
	}
	s.Hash = d.Hash
	s.byKey(keys, cert, d)
	s.byHash(in.hash(d.Hash))
	// The kernel always refuses a wrong signature of a key that it knows. To find one, the whole module has to
	// be read.
	if cert != nil && (s.Verdict == Trusted || s.Verdict == HashUnseen && t.strict()) {
		if _, err := sign.VerifyFile(ctx, m.Path, []*x509.Certificate{cert}); err != nil {
			s.Verdict, s.Detail = unreadable(err), err.Error()
		}
	}
	return s
}

// signatureBy predicts the verdict for the signature that a certificate's key will make here.
func (in *Input) signatureBy(cert *x509.Certificate, hash string, keys keyrings.Trusted) Signature {
	s := Signature{Hash: hash}
	s.byKey(keys, cert, sign.Description{})
	if hash != "" {
		s.byHash(in.hash(hash))
	}
	return s
}

// byKey looks for the signer among the kernel's keys.
func (s *Signature) byKey(keys keyrings.Trusted, cert *x509.Certificate, d sign.Description) {
	var found keyrings.Key
	var known bool
	switch {
	case cert != nil:
		s.Signer, s.KeyID = printable(cert.Subject.CommonName), keyrings.ID(cert)
		if s.Signer == "" {
			s.Signer = printable(cert.Subject.String())
		}
		found, known = keys.ByID(s.KeyID)
		s.Verdict = Trusted
	case d.KeyID != nil:
		s.KeyID = hex.EncodeToString(d.KeyID)
		found, known = keys.ByID(s.KeyID)
		s.Verdict = Trusted
	default: // for a self-signed certificate the issuer's name is its own
		s.Signer, s.KeyID = printable(d.Issuer), hex.EncodeToString(d.Serial)
		found, known = keys.ByName(d.Issuer)
		s.Verdict = ProbablyTrusted
	}
	switch {
	case known && !keys.Exact:
		s.Verdict = ProbablyTrusted
	case known:
		s.Keyring = found.Keyring
	case !keys.Seen:
		s.Verdict = KeysUnseen
	case cert != nil || d.KeyID != nil:
		s.Verdict = ForeignKey
	default:
		s.Verdict = ProbablyForeign
	}
}

// byHash is applied after byKey, because the kernel computes the hash before it looks for the key.
func (s *Signature) byHash(p presence) {
	switch p {
	case absent:
		s.Verdict = NoHash
	case unknown:
		if s.Verdict == Trusted || s.Verdict == ProbablyTrusted {
			s.Verdict = HashUnseen
		}
	case loadable:
		s.Detail = "the kernel loads " + s.Hash + " when it is asked for it"
	case present:
	}
}

// readSignature returns the last signature of a module's file; nil when there is none.
func readSignature(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	_, der, err := sign.Split(f, info.Size())
	return der, err
}

func unreadable(err error) Verdict {
	switch {
	case errors.Is(err, sign.ErrUnsigned):
		return Unsigned
	case errors.Is(err, sign.ErrMalformed):
		return Malformed
	case errors.Is(err, sign.ErrUnsupported):
		return Unsupported
	case errors.Is(err, sign.ErrMismatch), errors.Is(err, sign.ErrAttributes):
		return Changed
	case errors.Is(err, sign.ErrForeign):
		return ForeignKey
	default:
		return Unread
	}
}

// namesSigner says whether a signature names a certificate's key as its signer.
func namesSigner(d sign.Description, cert *x509.Certificate) bool {
	if d.KeyID != nil {
		return bytes.Equal(d.KeyID, cert.SubjectKeyId)
	}
	return bytes.Equal(d.Serial, keyrings.SerialBytes(cert)) && (d.Issuer == "" || cert.Issuer.CommonName == "" || d.Issuer == cert.Issuer.CommonName)
}
