//go:build cgo

package pkcs11

import (
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/ThalesGroup/crypto11"
	"github.com/miekg/pkcs11"

	"github.com/driver-container/driver-container/kmod/sign"
	"github.com/driver-container/driver-container/kmod/sign/keyfile"
)

// Open returns a signer with the private key that the URI names and the key's certificate, as
// signatures of modules need it. The certificate comes from certFile (see keyfile.LoadCertificates)
// or, when certFile is "", from the token (the one with the key's id). Everything else is as with
// OpenKey.
func Open(text, certFile string, pass keyfile.Passphrase) (*sign.Signer, io.Closer, error) {
	u, ctx, key, err := open(text, pass)
	if err != nil {
		return nil, nil, err
	}
	signer, err := u.signer(ctx, key, certFile)
	if err != nil {
		err = fmt.Errorf("open the PKCS#11 key by %s: %w", u.module, err)
		return nil, nil, errors.Join(err, ctx.Close())
	}
	return signer, ctx, nil
}

// OpenKey returns the private key that the URI names; it needs no certificate. The PIN comes from
// the file that the URI's pin-source names, or else from pass. Close ends the session with the
// token; call it after the last signature.
//
// The URI names the token by token, serial or slot-id (and model, manufacturer), the key by object
// or id, and the token's library by module-path. Every given property must match, and exactly one
// token and one key may match.
func OpenKey(text string, pass keyfile.Passphrase) (crypto.Signer, io.Closer, error) {
	_, ctx, key, err := open(text, pass)
	if err != nil {
		return nil, nil, err
	}
	return key, ctx, nil
}

func open(
	text string,
	pass keyfile.Passphrase,
) (u uri, ctx *crypto11.Context, _ crypto11.Signer, err error) {
	u, err = parse(text)
	if err != nil {
		return u, nil, nil, fmt.Errorf("open the PKCS#11 key: the URI is wrong: %w", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("open the PKCS#11 key by %s: %w", u.module, err)
			if ctx != nil {
				err = errors.Join(err, ctx.Close())
			}
		}
	}()
	slot, err := u.findSlot()
	if err != nil {
		return u, nil, nil, err
	}
	pin, err := u.pin(pass)
	if err != nil {
		return u, nil, nil, err
	}
	// Signatures are made one after the other, so a few sessions suffice.
	ctx, err = crypto11.Configure(
		&crypto11.Config{Path: u.module, SlotNumber: &slot, Pin: pin, MaxSessions: 4},
	)
	switch code := pkcs11.Error(0); {
	case errors.As(err, &code) && slices.Contains([]pkcs11.Error{pkcs11.CKR_PIN_INCORRECT, pkcs11.CKR_PIN_INVALID, pkcs11.CKR_PIN_LEN_RANGE}, code):
		return u, nil, nil, fmt.Errorf("%w (tried once)", ErrPIN)
	case errors.As(err, &code) && code == pkcs11.CKR_PIN_LOCKED:
		return u, nil, nil, fmt.Errorf("%w: it is locked after too many wrong ones", ErrPIN)
	case err != nil:
		return u, nil, nil, fmt.Errorf("log in to the token: %w", err)
	}
	keys, err := ctx.FindKeyPairs(u.id, []byte(u.object))
	if err != nil {
		return u, ctx, nil, fmt.Errorf("look for the key: %w", err)
	}
	if len(keys) != 1 {
		return u, ctx, nil, fmt.Errorf(
			"%d private keys match: the URI must name one, by object, id or both, whose public key or certificate is in the token as well (pkcs11-tool --list-objects --login shows them)",
			len(keys),
		)
	}
	return u, ctx, keys[0], nil
}

func (u uri) signer(
	ctx *crypto11.Context,
	key crypto11.Signer,
	certFile string,
) (*sign.Signer, error) {
	certs, err := u.certificates(ctx, key, certFile)
	if err != nil {
		return nil, err
	}
	return sign.NewSigner(key, certs...)
}

// certificates returns at least one certificate when there is no error.
func (u uri) certificates(
	ctx *crypto11.Context,
	key crypto11.Signer,
	certFile string,
) ([]*x509.Certificate, error) {
	if certFile != "" {
		return keyfile.LoadCertificates(certFile)
	}
	id, err := ctx.GetAttribute(key, crypto11.CkaId)
	if err != nil {
		return nil, fmt.Errorf("ask for the key's id: %w", err)
	}
	var cert *x509.Certificate
	if id != nil && len(id.Value) > 0 {
		cert, err = ctx.FindCertificate(id.Value, nil, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("look for the key's certificate: %w", err)
	}
	if cert == nil && u.object != "" {
		cert, err = ctx.FindCertificate(nil, []byte(u.object), nil)
	}
	if err != nil {
		return nil, fmt.Errorf("look for the key's certificate: %w", err)
	}
	if cert == nil {
		return nil, errors.New(
			"the token has no certificate with the key's id: give the certificate's file, or write it into the token (pkcs11-tool --write-object)",
		)
	}
	return []*x509.Certificate{cert}, nil
}

// findSlot asks the library which tokens it has, and returns the slot of the one that the URI
// names. crypto11 finds a token by one property only, and the URIs that tools print have several.
func (u uri) findSlot() (slot int, err error) {
	if st, err := os.Stat(u.module); err != nil {
		return 0, fmt.Errorf("the token's library: %w", err)
	} else if !st.Mode().IsRegular() {
		return 0, errors.New("the token's library is not a file")
	}
	lib := pkcs11.New(u.module)
	if lib == nil {
		return 0, errors.New(
			"the token's library cannot be loaded: is it a PKCS#11 library for this machine?",
		)
	}
	defer lib.Destroy()
	switch started := lib.Initialize(); {
	case started == nil:
		defer func() { err = errors.Join(err, lib.Finalize()) }()
	// With that error, another key is open, and its Close finalizes the library.
	case !errors.Is(started, pkcs11.Error(pkcs11.CKR_CRYPTOKI_ALREADY_INITIALIZED)):
		return 0, fmt.Errorf("start the token's library: %w", started)
	}
	slots, err := lib.GetSlotList(true)
	if err != nil {
		return 0, fmt.Errorf("list the tokens: %w", err)
	}
	var found []uint
	var names []string
	for _, s := range slots {
		info, err := lib.GetTokenInfo(s)
		if err != nil || info.Flags&pkcs11.CKF_TOKEN_INITIALIZED == 0 {
			continue // an empty or broken slot is not the one that the URI names
		}
		names = append(
			names,
			fmt.Sprintf("%q (serial %s, slot-id %d)", info.Label, info.SerialNumber, s),
		)
		if (u.slot == nil || *u.slot == s) && matchesProperty(u.token, info.Label) &&
			matchesProperty(u.serial, info.SerialNumber) &&
			matchesProperty(u.model, info.Model) &&
			matchesProperty(u.manufacturer, info.ManufacturerID) {
			found = append(found, s)
		}
	}
	switch {
	case len(found) == 1:
		return int(found[0]), nil
	case len(names) == 0:
		return 0, errors.New(
			"the library has no token: is it plugged in, and may this user use it?",
		)
	}
	return 0, fmt.Errorf(
		"%d tokens match, one must: the library has %s",
		len(found),
		strings.Join(names, ", "),
	)
}

func matchesProperty(want, have string) bool { return want == "" || want == have }
