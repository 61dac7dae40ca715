package sign

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

var testModule = bytes.Repeat([]byte("\x7fELF a module "), 1000)

func mustSign(t testing.TB, s *Signer, module []byte, hash crypto.Hash) []byte {
	t.Helper()
	return require.Value(s.Sign(t.Context(), bytes.NewReader(module), hash))(t)
}

func TestSignAndVerify(t *testing.T) {
	t.Parallel()
	other := keys()["other"].Certificate
	for name, s := range keys() {
		for _, h := range []string{"sha224", "sha256", "sha384", "sha512", "sha3-256", "sha3-384", "sha3-512"} {
			hash := require.Value(ParseHash(h))(t)
			der := mustSign(t, s, testModule, hash)
			got, err := Verify(t.Context(), bytes.NewReader(testModule), der, []*x509.Certificate{newCert(keys()["rsa"].Key, 5), s.Certificate})
			if err != nil || got != s.Certificate {
				t.Errorf("%s %s: Verify = %v, %v; want the signer's certificate", name, h, got, err)
			}
			want := Description{Issuer: "Builder of modules", Serial: serialOf(s.Certificate).Bytes, Hash: h, Algorithm: "ecdsa"}
			if name == "rsa" {
				want.Algorithm = "rsa"
			}
			if d, err := Describe(der); err != nil || !cmp.Equal(d, want) {
				t.Errorf("%s %s: Describe = %+v, %v; want %+v", name, h, d, err, want)
			}
			if name == "rsa" && !bytes.Equal(der, mustSign(t, s, testModule, hash)) {
				t.Errorf("%s %s: two signatures over the same bytes differ", name, h)
			}
			if name == "rsa" {
				if _, err := Verify(t.Context(), nil, der, []*x509.Certificate{other}); !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), "7F:01") {
					t.Errorf("%s: Verify with another certificate: %v; want ErrForeign that names the serial number", h, err)
				}
			}
		}
	}
}

func TestVerifyRefuses(t *testing.T) {
	t.Parallel()
	s, other := keys()["rsa"], keys()["p256"]
	der := mustSign(t, s, testModule, crypto.SHA256)
	flipped := bytes.Clone(der)
	flipped[len(flipped)-1] ^= 1
	changed := bytes.Clone(testModule)
	changed[100] ^= 1
	replace := func(from, to string) []byte {
		b := bytes.ReplaceAll(der, []byte(from), []byte(to))
		if bytes.Equal(b, der) {
			t.Fatalf("%x is not there", from)
		}
		return b
	}
	// Another certificate has the same name and number: its key decides.
	twin := newCert(other.Key, 0x7f01)
	for name, c := range map[string]struct {
		module, der []byte
		certs       []*x509.Certificate
		want        error
	}{
		"no certificate":      {testModule, der, nil, ErrForeign},
		"another key":         {testModule, der, []*x509.Certificate{other.Certificate}, ErrForeign},
		"a twin":              {testModule, der, []*x509.Certificate{twin}, ErrMismatch},
		"a twin and its own":  {testModule, der, []*x509.Certificate{twin, s.Certificate}, nil},
		"a flipped signature": {testModule, flipped, []*x509.Certificate{s.Certificate}, ErrMismatch},
		"another module":      {changed, der, []*x509.Certificate{s.Certificate}, ErrMismatch},
		"a longer module":     {append(bytes.Clone(testModule), 0), der, []*x509.Certificate{s.Certificate}, ErrMismatch},
		"cut":                 {testModule, der[:len(der)-1], []*x509.Certificate{s.Certificate}, ErrMalformed},
		"empty":               {testModule, nil, []*x509.Certificate{s.Certificate}, ErrMalformed},
		// The kernel accepts it too.
		"bytes after it":  {testModule, append(bytes.Clone(der), 0, 0), []*x509.Certificate{s.Certificate}, nil},
		"an unknown hash": {testModule, replace("\x60\x86\x48\x01\x65\x03\x04\x02\x01", "\x60\x86\x48\x01\x65\x03\x04\x02\x7f"), []*x509.Certificate{s.Certificate}, ErrUnsupported},
		"an unknown key":  {testModule, replace("\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01", "\x2a\x86\x48\x86\xf7\x0d\x01\x01\x7f"), []*x509.Certificate{s.Certificate}, ErrUnsupported},
		"encrypted data":  {testModule, replace("\x2a\x86\x48\x86\xf7\x0d\x01\x07\x02", "\x2a\x86\x48\x86\xf7\x0d\x01\x07\x03"), []*x509.Certificate{s.Certificate}, ErrMalformed},
		"other content":   {testModule, replace("\x2a\x86\x48\x86\xf7\x0d\x01\x07\x01", "\x2a\x86\x48\x86\xf7\x0d\x01\x07\x03"), []*x509.Certificate{s.Certificate}, ErrMalformed},
		"version 2":       {testModule, replace("\x02\x01\x01", "\x02\x01\x02"), []*x509.Certificate{s.Certificate}, ErrMalformed},
		"too large":       {testModule, make([]byte, maxSignature+1), []*x509.Certificate{s.Certificate}, ErrMalformed},
	} {
		cert, err := Verify(t.Context(), bytes.NewReader(c.module), c.der, c.certs)
		if !errors.Is(err, c.want) || (err == nil) != (cert == s.Certificate) {
			t.Errorf("%s: Verify = %v; want %v", name, err, c.want)
		}
		path := write(t, "x.ko", signed(c.module, c.der))
		if _, err := VerifyFile(t.Context(), path, c.certs); !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), path) {
			t.Errorf("%s: VerifyFile = %v; want %v with the path", name, err, c.want)
		}
	}
	whole := signed(testModule, der)
	for _, unsigned := range [][]byte{testModule, whole[:len(whole)-8], append(whole, 0)} {
		err := assert.Err(VerifyFile(t.Context(), write(t, "x.ko", unsigned), []*x509.Certificate{s.Certificate}))
		assert.ErrorIsf(t, err, ErrUnsigned, "%d bytes", len(unsigned))
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	digest := crypto.SHA512.New()
	digest.Write(testModule)
	for name, s := range keys() {
		raw := require.Value(s.Key.Sign(rand.Reader, digest.Sum(nil), crypto.SHA512))(t)
		der, err := Wrap(s.Certificate, crypto.SHA512, digest.Sum(nil), raw)
		require.NoErrorf(t, err, "%s", name)
		if name == "rsa" && !bytes.Equal(der, mustSign(t, s, testModule, crypto.SHA512)) {
			t.Error("Wrap and Sign differ")
		}
		if _, err := Verify(t.Context(), bytes.NewReader(testModule), der, []*x509.Certificate{s.Certificate}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := Wrap(s.Certificate, crypto.SHA256, make([]byte, 32), raw); !errors.Is(err, ErrMismatch) {
			t.Errorf("%s: Wrap of a signature over something else: %v; want ErrMismatch", name, err)
		}
	}
}

func TestNewSigner(t *testing.T) {
	t.Parallel()
	p224, _ := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	_, ed, _ := ed25519.GenerateKey(rand.Reader)
	odd, _ := rsa.GenerateKey(rand.Reader, 1024)
	s := keys()["p256"]
	for _, c := range []struct {
		key  crypto.Signer
		cert *x509.Certificate
		want string
	}{
		{s.Key, s.Certificate, ""},
		{nil, s.Certificate, "are needed"},
		{s.Key, nil, "are needed"},
		{s.Key, keys()["other"].Certificate, "is not that of the private key"},
		{p224, newCert(p224, 1), "P-256 or P-384"},
		{ed, newCert(ed, 1), "kernels know RSA"},
		{odd, newCert(odd, 1), "1024 bits"},
	} {
		_, err := NewSigner(c.key, c.cert)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("NewSigner(%T) = %v; want %q", c.key, err, c.want)
		}
	}
}

func TestParseHash(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "sha1", "md5", "SHA256", "sha-256"} {
		if _, err := ParseHash(name); err == nil || !strings.Contains(err.Error(), "sha256") {
			t.Errorf("ParseHash(%q) = %v; want an error that says what there is", name, err)
		}
	}
	assert.Errorf(t, assert.Err(keys()["p256"].Sign(t.Context(), bytes.NewReader(nil), crypto.SHA1)), "Sign with SHA-1 works")
	// Old kernels' own modules are signed with it, so it can be checked.
	if der, err := encode(keys()["p256"].Certificate, algorithms[len(algorithms)-1], []byte{1}); err != nil {
		t.Error(err)
	} else if d, err := Describe(der); err != nil || d.Hash != "sha1" || d.Algorithm != "ecdsa" {
		t.Errorf("Describe = %+v, %v; want sha1", d, err)
	}
}

type badKey struct{ crypto.Signer }

func (badKey) Sign(io.Reader, []byte, crypto.SignerOpts) ([]byte, error) { return []byte{1, 2, 3}, nil }

type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

func TestSignFails(t *testing.T) {
	t.Parallel()
	s := keys()["rsa"]
	if _, err := (&Signer{Key: badKey{s.Key}, Certificate: s.Certificate}).Sign(t.Context(), bytes.NewReader(testModule), crypto.SHA256); err == nil || !strings.Contains(err.Error(), "faulty") {
		t.Errorf("a faulty token: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	assert.ErrorIsf(t, assert.Err(s.Sign(ctx, endless{}, crypto.SHA256)), enough, "Sign after the context's end")
	if _, err := Verify(ctx, endless{}, mustSign(t, s, testModule, crypto.SHA256), []*x509.Certificate{s.Certificate}); !errors.Is(err, enough) {
		t.Errorf("Verify after the context's end: %v", err)
	}
}

// TestLoadSigner: of several certificates the one of the key counts; package keyfile has all formats.
func TestLoadSigner(t *testing.T) {
	t.Parallel()
	r, e := keys()["rsa"], keys()["p256"]
	key := pemOf("PRIVATE KEY", require.Value(x509.MarshalPKCS8PrivateKey(r.Key))(t))
	rCert, eCert := pemOf("CERTIFICATE", r.Certificate.Raw), pemOf("CERTIFICATE", e.Certificate.Raw)
	for name, files := range map[string][2][]byte{
		"certificate in another file":  {key, r.Certificate.Raw},
		"a chain, the key's not first": {slices.Concat(eCert, key, rCert), nil},
		"a chain in the other file":    {key, slices.Concat(eCert, rCert)},
		"the other file counts":        {slices.Concat(eCert, key), rCert},
	} {
		certFile := ""
		if files[1] != nil {
			certFile = write(t, "cert", files[1])
		}
		got, err := LoadSigner(write(t, "key", files[0]), certFile, nil)
		if err != nil || !got.Certificate.Equal(r.Certificate) || !sameKey(got.Key.Public(), r.Key.Public()) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	r, e := keys()["rsa"], keys()["p256"]
	key, _ := x509.MarshalPKCS8PrivateKey(e.Key)
	for name, c := range map[string]struct {
		key, cert []byte
		want      string
	}{
		"no certificate":      {key, nil, "give the file that has the key's"},
		"only a certificate":  {e.Certificate.Raw, nil, "no private key"},
		"another certificate": {key, r.Certificate.Raw, "is not that of the private key"},
		"two keys by mistake": {key, key, "it holds a key and no certificate"},
		"PKCS#12 certificate": {key, read(t, "keyfile/testdata/key.p12"), "-nokeys"},
	} {
		certFile := ""
		if c.cert != nil {
			certFile = write(t, "cert", c.cert)
		}
		_, err := LoadSigner(write(t, "key", c.key), certFile, nil)
		assert.ErrorContainsf(t, err, c.want, "%s", name)
	}
}
