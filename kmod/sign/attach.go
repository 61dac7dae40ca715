package sign

import (
	"bytes"
	"context"
	"crypto"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"github.com/driver-container/driver-container/distros/bounded"
)

// Attach writes the module of the file from to the new file to. It omits signatures that the module
// has and appends this one. Attach does not verify the signature (see VerifyFile), but returns
// ErrMalformed for one that no kernel could read.
func Attach(ctx context.Context, from, to string, der []byte) error {
	if _, err := decode(der); err != nil {
		return fmt.Errorf("attach a signature to %s: %w", from, err)
	}
	if err := rewrite(ctx, from, to, signatureBytes(der)); err != nil {
		return fmt.Errorf("attach a signature: %w", err)
	}
	return nil
}

// Detach writes the module of the file from, without any signatures, to the new file to. The result
// is what gets signed.
func Detach(ctx context.Context, from, to string) error {
	if err := rewrite(ctx, from, to, nil); err != nil {
		return fmt.Errorf("remove the signature: %w", err)
	}
	return nil
}

// rewrite writes a module without its signatures, and what is to follow it. After an error nothing
// is left.
func rewrite(ctx context.Context, from, to string, follows []byte) error {
	m, err := openUnsigned(from)
	if err != nil {
		return err
	}
	defer m.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, m.mode)
	if err != nil {
		return err
	}
	err = transfer(ctx, out, io.MultiReader(m.content(), bytes.NewReader(follows)))
	err = errors.Join(err, out.Sync(), out.Close())
	if err != nil {
		return fmt.Errorf("write %s: %w", to, errors.Join(err, os.Remove(to)))
	}
	return nil
}

// signatureBytes returns everything that follows the module.
func signatureBytes(der []byte) []byte {
	b := append(slices.Clone(der), 0, 0, idPKCS7, 0, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(len(der)))
	return append(b, magic...)
}

// Digest returns the digest of the module in a file without its signatures, and the module's length
// in bytes. A key in another place signs this digest (see Wrap).
func Digest(
	ctx context.Context,
	path string,
	hash crypto.Hash,
) (digest []byte, length int64, err error) {
	m, err := openUnsigned(path)
	if err != nil {
		return nil, 0, fmt.Errorf("digest of the module: %w", err)
	}
	defer m.Close()
	digest, err = digestOf(ctx, m.content(), hash)
	if err != nil {
		return nil, 0, fmt.Errorf("digest of the module %s: %w", path, err)
	}
	return digest, m.unsigned, nil
}

func digestOf(ctx context.Context, content io.Reader, hash crypto.Hash) ([]byte, error) {
	h := hash.New()
	if err := transfer(ctx, h, content); err != nil {
		return nil, err
	}
	return h.Sum(nil), nil
}

// transfer copies until ctx ends.
func transfer(ctx context.Context, to io.Writer, from io.Reader) error {
	_, err := io.Copy(
		to,
		&bounded.Limited{
			Reader: from,
			Left:   math.MaxInt64,
			Stop:   func() error { return context.Cause(ctx) },
		},
	)
	return err
}
