package dpkg

import (
	"errors"
	"fmt"
	"io"

	"github.com/driver-container/driver-container/distros/compression"
)

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrFormat, fmt.Errorf(format, args...))
}

// asFormat makes an error ErrFormat if it is none yet.
func asFormat(err error) error {
	if errors.Is(err, ErrFormat) {
		return err
	}
	return malformed("%w", err)
}

// compressions are those of the members of a package, by the endings of their names.
var compressions = map[string]string{
	"":     "",
	".gz":  compression.Gzip,
	".xz":  compression.XZ,
	".zst": compression.Zstd,
	".bz2": compression.Bzip2,
}

// unpack returns the content of a member with this ending, of at most limit bytes. A damaged stream
// is ErrFormat; errors of r are its own. xz is for an .xz stream; nil: in Go.
func unpack(r io.Reader, ending string, limit int64, xz compression.OpenXZ) (io.ReadCloser, error) {
	kind, ok := compressions[ending]
	if !ok {
		return nil, malformed(
			"compression %q is not supported: want none, .gz, .xz or .zst",
			ending,
		)
	}
	return compression.Stream{XZ: xz, Limit: limit, Format: ErrFormat}.Open(r, kind)
}
