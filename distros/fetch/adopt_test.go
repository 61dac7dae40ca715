package fetch

import (
	"bytes"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
)

func TestAdopt(t *testing.T) {
	t.Parallel()
	s, data := newStore(t), []byte("a package")
	sum := sha512.Sum512(data)
	f := File{URL: "x.rpm", SHA256: digest(data), SHA512: hex.EncodeToString(sum[:]), Size: int64(len(data))}
	_, wrong := errors.AsType[*MismatchError](s.Adopt(t.Context(), f, bytes.NewReader([]byte("another 1"))))
	assert.Equal(t, true, wrong)
	assert.Equal(t, false, s.Has(f.SHA256))
	require.NoError(t, s.Adopt(t.Context(), f, bytes.NewReader(data)))
	assert.Equal(t, true, s.Has(f.SHA256) && s.Has(f.SHA512))
	require.NoError(t, s.Adopt(t.Context(), f, bytes.NewReader(nil)))
	assert.Errorf(t, s.Adopt(t.Context(), File{URL: "x"}, bytes.NewReader(data)), "no digest")
	checkEmpty(t, s, tmpDir)
}
