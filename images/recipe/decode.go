package recipe

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/failure"
)

// maxBytes bounds a recipe that is read. That of an image with 200 packages has 60 kB.
const maxBytes = 8 << 20

// ErrFormat means that bytes are no recipe that this program can build.
var ErrFormat = failure.New(failure.Content, "not a recipe that this driver-build can build")

// Decode reads a recipe as [Recipe] is marshalled, from anybody: values that could be no option of a build are
// refused, because they become parts of paths, requests and arguments, and so are fields that nobody knows, because the
// image may depend on them. What only a machine knows, the Location of images and the Path of programs, is empty. All
// errors are ErrFormat.
func Decode(data []byte) (*Recipe, error) {
	fail := func(err error) (*Recipe, error) {
		return nil, failure.Errorf(failure.Content, "%w: %w", ErrFormat, err)
	}
	if len(data) > maxBytes {
		return fail(errors.New("it is larger than 8 MiB"))
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	r := &Recipe{}
	if err := d.Decode(r); err != nil {
		return fail(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fail(errors.New("something follows its end"))
	}
	if err := r.check(); err != nil {
		return fail(err)
	}
	r.Distro, _ = distros.Lookup(r.System)
	r.Links, r.LibDir, r.LibDir32 = r.Distro.Links(), r.Distro.LibDir(r.Arch), r.Distro.LibDir32(r.Arch)
	return r, nil
}
