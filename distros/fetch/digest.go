package fetch

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"os"
	"strings"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/redact"
)

// kind returns the kind of a digest: "sha256", "sha512", or "" for anything else.
func kind(digest string) string {
	if strings.Trim(digest, "0123456789abcdef") != "" {
		return ""
	}
	switch len(digest) {
	case 2 * sha256.Size:
		return "sha256"
	case 2 * sha512.Size:
		return "sha512"
	}
	return ""
}

// sha256Of returns the digest of data, in hex.
func sha256Of(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }

// key returns the digest by which the store is asked.
func (f File) key() string {
	return cmp.Or(f.SHA256, f.SHA512)
}

// Digest names the content as a registry does: "sha256:" and hex digits; "sha512:" where the index
// that lists the file has no other.
func (f File) Digest() string {
	if f.SHA256 == "" {
		return "sha512:" + f.SHA512
	}
	return "sha256:" + f.SHA256
}

// NewFile returns a file without its URL for a digest in hex of kind "sha256" or "sha512", the
// names that indexes of packages use, in any case. A digest of another kind is an error: weaker
// ones do not count.
func NewFile(digestKind, digest string, size int64) (File, error) {
	digest = strings.ToLower(strings.TrimSpace(digest))
	long := strings.EqualFold(digestKind, "sha512")
	switch {
	case !long && !strings.EqualFold(digestKind, "sha256"):
		return File{}, fmt.Errorf(
			"its digest is a %.20q, which does not count; want sha256 or sha512",
			digestKind,
		)
	case !strings.EqualFold(kind(digest), digestKind):
		return File{}, fmt.Errorf("%.80q is not a %s", digest, digestKind)
	case long:
		return File{SHA512: digest, Size: size}, nil
	}
	return File{SHA256: digest, Size: size}, nil
}

func (f File) check() error {
	switch {
	case f.key() == "":
		return errors.New("it has neither a sha256 nor a sha512")
	case f.SHA256 != "" && kind(f.SHA256) != "sha256":
		return fmt.Errorf("%q is not a sha256 in lower-case hex", f.SHA256)
	case f.SHA512 != "" && kind(f.SHA512) != "sha512":
		return fmt.Errorf("%q is not a sha512 in lower-case hex", f.SHA512)
	}
	return nil
}

// sums computes the digests of content in transfer: always the sha256, which names it in the store,
// and the sha512 if the file has one.
type sums struct{ hash256, hash512 hash.Hash }

func newSums(f File) sums {
	s := sums{hash256: sha256.New()}
	if f.SHA512 != "" {
		s.hash512 = sha512.New()
	}
	return s
}

func (s sums) Write(p []byte) (int, error) {
	if s.hash512 != nil {
		_, _ = s.hash512.Write(p) // never fails
	}
	return s.hash256.Write(p)
}

func (s sums) reset() {
	s.hash256.Reset()
	if s.hash512 != nil {
		s.hash512.Reset()
	}
}

func (s sums) sha256() string { return hex.EncodeToString(s.hash256.Sum(nil)) }
func (s sums) sha512() string { return hex.EncodeToString(s.hash512.Sum(nil)) }

// Pinned has read take the content of a downloaded file, and compares its digest once more: the file
// may have changed since it was downloaded. Another digest is a *MismatchError, which counts more
// than what read makes of the content.
func Pinned(ctx context.Context, name string, want File, read func(io.Reader) error) (err error) {
	f, err := os.Open(name) //nolint:gosec // a path in the store
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	sums := newSums(want)
	stop := func() error { return context.Cause(ctx) }
	in := io.TeeReader(&bounded.Limited{Reader: f, Left: math.MaxInt64, Stop: stop}, sums)
	wrong := read(in)
	_, err = io.Copy(io.Discard, in)
	if err != nil {
		return err
	}
	digest, got := sums.compare(want)
	if got != digest {
		return &MismatchError{URL: redact.URL(want.URL), Want: digest, Got: got}
	}
	return wrong
}

// compare returns the wanted and the actual digest; of two digests, one that differs.
func (s sums) compare(f File) (want, got string) {
	if got := s.sha256(); f.SHA512 == "" || f.SHA256 != "" && f.SHA256 != got {
		return f.SHA256, got
	}
	return f.SHA512, s.sha512()
}
