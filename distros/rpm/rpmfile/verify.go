package rpmfile

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/driver-container/driver-container/distros/pgp"
)

// maxSignatures limits the signatures of one package; usually there is one, and two while a
// distribution changes its keys.
const maxSignatures = 8

// Verify checks that one of the keys has signed the package and returns the fingerprint of its
// primary key in capital hex. If fingerprints are given, only keys (or subkeys) with one of them
// are accepted.
//
// The signature covers the header, and the header must bind the payload: by a digest of the
// payload, as in all packages since rpm 4.14, or by digests of all files, as in el6 and el7. MD5
// and SHA-1 do not count, neither for that nor in signatures. The payload is therefore authentic
// only if Payload returns no error.
//
// Signatures over header and payload together, which rpm 3 and 4 make besides, do not count.
//
// Errors are ErrSignature, also if the key had expired, was revoked or is too short, or if nothing
// binds the payload.
func (f *File) Verify(keys pgp.Ring, fingerprints []string) (signer string, err error) {
	var failures []string
	binding := f.binds()
	for _, data := range f.headerSignatures() {
		signer, wrong := f.headerSigner(data, keys, fingerprints)
		err := cmp.Or(wrong, binding)
		if err == nil {
			return signer, nil
		}
		failures = append(failures, err.Error())
	}
	if len(failures) == 0 {
		failures = []string{"it is not signed"}
	}
	return "", fmt.Errorf("rpm %s: %w: %s", f.name(), ErrSignature, strings.Join(failures, "; "))
}

// headerSignatures returns the signatures over the header: those of rpm 4.20, those of RSA and all
// later kinds, those of DSA.
func (f *File) headerSignatures() [][]byte {
	var all [][]byte
	for _, text := range f.Signature.Texts(TagOpenPGP) {
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			data = nil // counts as malformed
		}
		all = append(all, data)
	}
	for _, tag := range []Tag{TagRSAHeader, TagDSAHeader} {
		if data := f.Signature.Binary(tag); data != nil {
			all = append(all, data)
		}
	}
	return all[:min(len(all), maxSignatures)]
}

func (f *File) headerSigner(data []byte, keys pgp.Ring, fingerprints []string) (string, error) {
	if !f.Header.Immutable() {
		return "", errors.New("the header has no immutable region")
	}
	s, err := parseSignature(data)
	if err != nil {
		return "", err
	}
	return s.signer(keys, fingerprints, f.signed())
}

// binds returns an error that says why the header does not bind the content of the payload; nil if
// it does.
func (f *File) binds() error {
	if _, sum := f.payloadDigest(); sum != "" {
		return nil
	}
	for _, x := range f.files {
		if x.kind() == modeRegular && !x.ghost() && x.size > 0 && x.digest == "" {
			return fmt.Errorf(
				"the header has no SHA-256 or better of the payload, nor of %.200q",
				x.path,
			)
		}
	}
	return nil
}
