package runfile

import (
	"errors"
	"fmt"
)

// Kinds of failure, for errors.Is. Errors of the package wrap exactly one of them, or the error of the caller's own
// reader, callback or context.
var (
	// ErrHeader: the file does not begin like an NVIDIA .run archive.
	ErrHeader = errors.New("not an NVIDIA .run archive")
	// ErrChecksum: the bytes are not those that the head of the archive announces: a damaged or truncated file.
	ErrChecksum = errors.New("archive is damaged")
	// ErrPayload: the checksums are right (or could not be computed), but the payload cannot be decompressed or is no
	// well-formed tar.
	ErrPayload = errors.New("payload cannot be unpacked")
	// ErrUnsafe: the payload holds something an NVIDIA archive never has, and that could harm: absolute or climbing
	// names, links, devices, a name twice.
	ErrUnsafe = errors.New("unsafe archive member")
	// ErrTooLarge: a bound of [Limits] was exceeded.
	ErrTooLarge = errors.New("archive exceeds a limit")
	// ErrManifest: the .manifest is malformed or asks for something impossible.
	ErrManifest = errors.New("invalid .manifest")
)

// ChecksumError tells which sum of the archive's head is wrong. It matches [ErrChecksum].
type ChecksumError struct {
	// Sum is "CRC" or "MD5".
	Sum string
	// Want is what the head announces, Got what the bytes have, in the head's notation.
	Want, Got string
	// Cause is the decompression or tar error that the damage led to, nil when the payload unpacked nevertheless.
	Cause error
}

func (e *ChecksumError) Error() string {
	msg := fmt.Sprintf("%s over the archive is %s where its head says %s: %s; download it again", e.Sum, e.Got, e.Want, ErrChecksum)
	if e.Cause != nil {
		msg += fmt.Sprintf(" (first symptom: %v)", e.Cause)
	}
	return msg
}

// Unwrap makes errors.Is(err, ErrChecksum) true and keeps the symptom reachable.
func (e *ChecksumError) Unwrap() []error {
	if e.Cause == nil {
		return []error{ErrChecksum}
	}
	return []error{ErrChecksum, e.Cause}
}

// ManifestError is a mistake in one line of a .manifest. It matches [ErrManifest].
type ManifestError struct {
	// Name is what the caller called the manifest, Line is counted from 1.
	Name string
	Line int
	// File and Type are the first and third word of the line, empty where it has none.
	File, Type string
	// Reason says what is wrong.
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
