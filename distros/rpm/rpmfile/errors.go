package rpmfile

import "errors"

// Sentinels that callers distinguish. Errors of an underlying reader are returned unchanged.
var (
	// ErrFormat says that bytes or a text violate the format, or exceed any real package.
	ErrFormat = errors.New("malformed")
	// ErrUnsafePath says that a package has a file that would be outside of the folder it is unpacked into, or
	// that is neither file, folder nor link.
	ErrUnsafePath = errors.New("unsafe member")
	// ErrSignature says that no accepted key has signed a package, or that its signature is wrong or too weak.
	ErrSignature = errors.New("no trusted signature")
	// ErrDigest says that the payload, a file or the header differs from a digest in the package.
	ErrDigest = errors.New("digest mismatch")
	// ErrKey says that an accepted key has signed the package, but that the key has expired, was revoked or
	// cannot be used.
	ErrKey = errors.New("unusable key")
)
