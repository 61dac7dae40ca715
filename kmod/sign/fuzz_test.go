package sign

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"errors"
	"testing"
)

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
