package rpmfile

import "errors"

// Sentinels for callers to switch on. Errors of a reader below come through as they are.
var (
	// ErrFormat says that bytes or a text are not what the format allows, or beyond any real package.
	ErrFormat = errors.New("malformed")
	// ErrUnsafePath says that a package has a file that would land outside of the folder it is unpacked in, or one that is
	// neither file, folder nor link.
	ErrUnsafePath = errors.New("unsafe member")
	// ErrSignature says that a package is not signed by a key that counts, or its signature is wrong or too weak.
	ErrSignature = errors.New("no trusted signature")
	// ErrDigest says that the payload, a file or the header is not what a digest of the package says.
	ErrDigest = errors.New("digest mismatch")
	// ErrKey says that the package is signed by a key that counts, but that the key has expired, was revoked or cannot be used.
	ErrKey = errors.New("unusable key")
)
