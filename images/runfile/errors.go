package runfile

import (
	"fmt"

	"github.com/driver-container/driver-container/distros/failure"
)

// Kinds of failure, for errors.Is. An error of this package wraps exactly one of them, or the error of the
// caller's own reader, callback or context.
var (
	// ErrHeader: the file does not begin like an NVIDIA .run archive.
	ErrHeader = failure.New(failure.Content, "not an NVIDIA .run archive")
	// ErrChecksum: the bytes do not match the sums in the archive's head: a damaged or truncated file.
	ErrChecksum = failure.New(failure.Content, "archive is damaged")
	// ErrPayload: the checksums are right (or could not be computed), but the payload cannot be decompressed or
	// is not a well-formed tar.
	ErrPayload = failure.New(failure.Content, "payload cannot be unpacked")
	// ErrUnsafe: the payload has something dangerous that no NVIDIA archive has: absolute names, names with
	// "..", links, devices, a name twice.
	ErrUnsafe = failure.New(failure.Content, "unsafe archive member")
	// ErrTooLarge: a bound of [Limits] was exceeded.
	ErrTooLarge = failure.New(failure.Content, "archive exceeds a limit")
	// ErrManifest: the .manifest is malformed or requires something impossible.
	ErrManifest = failure.New(failure.Content, "invalid .manifest")
)

// ChecksumError says which sum of the archive's head is wrong. It matches [ErrChecksum].
type ChecksumError struct {
	// Sum is "CRC" or "MD5".
	Sum string
	// Want is the value in the head, Got the value of the bytes, in the head's notation.
	Want, Got string
	// Cause is the decompression or tar error that resulted from the damage; nil when the payload could be
	// unpacked.
	Cause error
}

func (e *ChecksumError) Error() string {
	msg := fmt.Sprintf("%s over the archive is %s where its head says %s: %s; download it again", e.Sum, e.Got, e.Want, ErrChecksum)
	if e.Cause != nil {
		msg += fmt.Sprintf(" (first symptom: %v)", e.Cause)
	}
	return msg
}

// Unwrap makes errors.Is(err, ErrChecksum) true and keeps Cause reachable.
func (e *ChecksumError) Unwrap() []error {
	if e.Cause == nil {
		return []error{ErrChecksum}
	}
	return []error{ErrChecksum, e.Cause}
}

// ManifestError is a mistake in one line of a .manifest. It matches [ErrManifest].
type ManifestError struct {
	// Name is the caller's name for the manifest. Line is counted from 1.
	Name string
	Line int
	// File and Type are the first and third word of the line; empty where it has none.
	File, Type string
	// Reason is the mistake.
	Reason string
}

func (e *ManifestError) Error() string {
	where := fmt.Sprintf("%s:%d", e.Name, e.Line)
	if e.File != "" {
		where += fmt.Sprintf(": file %q", e.File)
	}
	if e.Type != "" {
		where += fmt.Sprintf(" of type %q", e.Type)
	}
	return fmt.Sprintf("%s: %s (%s)", where, e.Reason, ErrManifest)
}

// Unwrap makes errors.Is(err, ErrManifest) true.
func (e *ManifestError) Unwrap() error { return ErrManifest }
