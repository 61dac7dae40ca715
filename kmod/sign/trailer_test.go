package sign

import (
	"bytes"
	"context"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

func TestSplit(t *testing.T) {
	t.Parallel()
	der := mustSign(t, keys()["rsa"], testModule, crypto.SHA256)
	edit := func(back int, value ...byte) []byte {
		b := signed(testModule, der)
		copy(b[len(b)-len(magic)-back:], value)
		return b
	}
	exact := signed(testModule, der)
	binary.BigEndian.PutUint32(exact[len(exact)-len(magic)-4:], uint32(len(testModule)+len(der)))
	for name, c := range map[string]struct {
		file    []byte
		content int
		der     []byte
		err     error
	}{
		"unsigned":         {testModule, len(testModule), nil, nil},
		"empty":            {nil, 0, nil, nil},
		"short":            {[]byte("~"), 1, nil, nil},
		"signed":           {signed(testModule, der), len(testModule), der, nil},
		"twice":            {signed(signed(testModule, der), der), len(signed(testModule, der)), der, nil},
		"empty signature":  {signed(testModule, nil), len(testModule), []byte{}, nil},
		"magic only":       {[]byte(magic), 0, nil, ErrMalformed},
		"trailer only":     {append(make([]byte, trailerSize), magic...), 0, nil, ErrMalformed},
		"all is signature": {exact, 0, nil, ErrMalformed}, // at least one byte must be signed
		"too long":         {edit(4, 0xff, 0xff, 0xff, 0xff), 0, nil, ErrMalformed},
		"old format":       {edit(10, 1), 0, nil, ErrUnsupported},
		"other numbers":    {edit(12, 1), 0, nil, ErrMalformed},
	} {
		content, got, err := Split(bytes.NewReader(c.file), int64(len(c.file)))
		if !errors.Is(err, c.err) || err == nil && (content != int64(c.content) || !bytes.Equal(got, c.der) || (got == nil) != (c.der == nil)) {
			t.Errorf("%s: Split = %d, %d bytes, %v; want %d, %d bytes, %v", name, content, len(got), err, c.content, len(c.der), c.err)
		}
	}
	if _, _, err := Split(bytes.NewReader(testModule), int64(len(testModule))+100); err == nil || errors.Is(err, ErrMalformed) {
		t.Errorf("a file that became shorter: %v; want an error of reading", err)
	}
}

func TestAttach(t *testing.T) {
	t.Parallel()
	sum := sha256.Sum256(testModule)
	s, other := keys()["rsa"], keys()["p384"]
	der := mustSign(t, s, testModule, crypto.SHA256)
	foreign := mustSign(t, other, testModule, crypto.SHA512)
	want := signed(testModule, der)
	for name, content := range map[string][]byte{"unsigned": testModule, "signed": signed(testModule, foreign),
		"twice": signed(signed(testModule, foreign), foreign), "broken": signed(testModule, []byte("broken"))} {
		from := write(t, "x.ko", content)
		if got, err := s.SignFile(t.Context(), from, crypto.SHA256); err != nil || !bytes.Equal(got, der) {
			t.Errorf("%s: SignFile: %v, or another signature", name, err)
		}
		to := filepath.Join(t.TempDir(), "y.ko")
		require.NoErrorf(t, Attach(t.Context(), from, to, der), "%s", name)
		if !bytes.Equal(read(t, to), want) {
			t.Errorf("%s: Attach did not write the module and one signature", name)
		}
		assert.NoError(t, assert.Err(VerifyFile(t.Context(), to, []*x509.Certificate{s.Certificate})))
		require.NoError(t, Detach(t.Context(), from, to+".bare"))
		assert.Equalf(t, true, bytes.Equal(testModule, read(t, to+".bare")), "%s: Detach", name)
		digest, n, err := Digest(t.Context(), from, crypto.SHA256)
		if err != nil || n != int64(len(testModule)) || !bytes.Equal(digest, sum[:]) {
			t.Errorf("%s: Digest = %x of %d bytes, %v", name, digest, n, err)
		}
		assert.Equalf(t, 0o640, int(require.Value(os.Stat(to))(t).Mode()), "%s: mode; want that of the original", name)
	}
}

func TestAttachRefuses(t *testing.T) {
	t.Parallel()
	der := mustSign(t, keys()["rsa"], testModule, crypto.SHA256)
	nested := testModule
	for range maxNested + 1 {
		nested = signed(nested, der)
	}
	old := signed(testModule, der)
	old[len(old)-len(magic)-10] = 1
	for name, c := range map[string]struct {
		content, der []byte
		want         string
	}{
		"no signature":     {testModule, nil, "malformed"},
		"broken signature": {testModule, der[1:], "malformed"},
		"compressed":       {append([]byte("\xfd7zXZ\x00"), testModule...), der, "compressed (xz)"},
		"empty":            {nil, der, "0 bytes"},
		"old format":       {old, der, "before it was signed"},
		"many signatures":  {nested, der, "one over the other"},
	} {
		from := write(t, "x.ko", c.content)
		to := filepath.Join(t.TempDir(), "y.ko")
		assert.ErrorContainsf(t, Attach(t.Context(), from, to, c.der), c.want, "%s", name)
		assert.ErrorIsf(t, assert.Err(os.Stat(to)), os.ErrNotExist, "%s: the file is there", name)
	}
	pipe := filepath.Join(t.TempDir(), "pipe.ko")
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	assert.ErrorContainsf(t, Attach(t.Context(), pipe, pipe, der), "regular", "a pipe")
}

func TestAttachCancelled(t *testing.T) {
	t.Parallel()
	der := mustSign(t, keys()["rsa"], testModule, crypto.SHA256)
	path := write(t, "x.ko", testModule)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIsf(t, Attach(ctx, path, path+".signed", der), context.Canceled, "Attach")
	assert.Equalf(t, 1, len(require.Value(os.ReadDir(filepath.Dir(path)))(t)), "something is left over")
}

func FuzzSplit(f *testing.F) {
	der := mustSign(f, keys()["p256"], testModule[:100], crypto.SHA256)
	f.Add(signed(testModule[:100], der))
	f.Add(signed(signed(testModule[:100], der), der))
	f.Add(append(make([]byte, trailerSize), magic...))
	f.Fuzz(func(t *testing.T, b []byte) {
		length, der, err := Split(bytes.NewReader(b), int64(len(b)))
		switch {
		case err != nil:
			if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrUnsupported) {
				t.Errorf("Split: %v", err)
			}
		case der == nil && length != int64(len(b)), der != nil && !bytes.Equal(signed(b[:length], der), b):
			t.Errorf("Split = %d, %x: the parts are not the file", length, der)
		}
		if _, err := unsignedLength(bytes.NewReader(b), int64(len(b))); err != nil && !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrUnsupported) {
			t.Errorf("bare: %v", err)
		}
	})
}

func FuzzVerify(f *testing.F) {
	for _, name := range []string{"rsa", "p256"} {
		f.Add(mustSign(f, keys()[name], testModule[:100], crypto.SHA256))
	}
	certs := []*x509.Certificate{keys()["rsa"].Certificate, keys()["p256"].Certificate}
	f.Fuzz(func(t *testing.T, der []byte) {
		d, described := Describe(der)
		_, err := Verify(t.Context(), bytes.NewReader(testModule[:100]), der, certs)
		known := false
		for _, want := range []error{nil, ErrMalformed, ErrForeign, ErrMismatch, ErrAttributes, ErrUnsupported} {
			known = known || errors.Is(err, want)
		}
		if !known || errors.Is(err, ErrMalformed) != errors.Is(described, ErrMalformed) {
			t.Errorf("Describe = %+v, %v; Verify = %v", d, described, err)
		}
		// None of the seeds' keys signed this content.
		if _, err := Verify(t.Context(), bytes.NewReader(testModule[:99]), der, certs); err == nil {
			t.Error("a signature fits bytes that nobody signed")
		}
	})
}
