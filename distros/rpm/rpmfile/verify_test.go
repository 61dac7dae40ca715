package rpmfile

import (
	"archive/tar"
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"encoding/binary"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/cavaliergopher/rpm"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/pgp"
)

// day is the creation time of the keys in these tests.
var day = time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)

func opened(t testing.TB, data []byte) *File {
	t.Helper()
	return require.Value(Open(bytes.NewReader(data)))(t)
}

func TestVerify(t *testing.T) {
	t.Parallel()
	key, keys := signer(t, packet.Config{Time: at(day)})
	other, others := signer(t, packet.Config{Time: at(day)})
	short, shorts := signer(t, packet.Config{Time: at(day), Algorithm: packet.PubKeyAlgoRSA, RSABits: 1024})
	expiring, expired := signer(t, packet.Config{Time: at(day), KeyLifetimeSecs: 3600})
	now := packet.Config{Time: at(day.Add(time.Minute))}
	single := []repotest.File{{Name: "a", Body: "x"}}
	signed := func(e *openpgp.Entity, c packet.Config) recipe {
		return recipe{items: single, sign: headerSigned(e, c)}
	}
	both := recipe{items: single, sign: func(t testing.TB, header, _ []byte) []Entry {
		return []Entry{openPGPTag(sign(t, other, header, now)), {TagRSAHeader, TypeBinary, sign(t, key, header, now)}}
	}}
	raw := func(data []byte) recipe {
		return recipe{items: single, sign: func(testing.TB, []byte, []byte) []Entry { return []Entry{{TagRSAHeader, TypeBinary, data}} }}
	}
	dated := func(e *openpgp.Entity, when time.Time) recipe {
		return recipe{items: single, sign: func(t testing.TB, header, _ []byte) []Entry {
			return []Entry{{TagRSAHeader, TypeBinary, repotest.SignAt(t, e, header, when)}}
		}}
	}
	unbound := func(r recipe) recipe {
		r.drop = []Tag{TagPayloadDigest, TagFileDigestAlgo}
		return r
	}
	md5 := signed(key, now)
	md5.extra = []Entry{{TagPayloadDigestAlgo, TypeInt32, []uint32{1}}, {TagFileDigestAlgo, TypeInt32, []uint32{1}}}
	primary := keys.Fingerprints()[0]
	tests := map[string]struct {
		r      recipe
		keys   pgp.Ring
		prints []string
		want   error // nil: verified
		word   string
	}{
		"good":                   {signed(key, now), keys, nil, nil, primary},
		"good, named":            {signed(key, now), keys, []string{"00", primary}, nil, primary},
		"good, one of many keys": {signed(key, now), joined(others, expired, keys), nil, nil, primary},
		"SHA-512":                {signed(key, packet.Config{Time: now.Time, DefaultHash: crypto.SHA512}), keys, nil, nil, primary},
		"bound by its files":     {recipe{items: single, sign: headerSigned(key, now), drop: []Tag{TagPayloadDigest}}, keys, nil, nil, primary},
		"no files":               {recipe{sign: headerSigned(key, now), drop: []Tag{TagPayloadDigest}}, keys, nil, nil, primary},
		"two, first unknown":     {both, keys, nil, nil, primary},
		"two, first known":       {both, others, nil, nil, others.Fingerprints()[0]},
		"two, the second named":  {both, joined(keys, others), []string{primary}, nil, primary},
		"key expired since":      {signed(expiring, now), expired, nil, nil, expired.Fingerprints()[0]},
		"key had expired":        {dated(expiring, day.Add(48*time.Hour)), expired, nil, ErrSignature, "2024-05-03"},
		"signed before the key":  {dated(key, day.Add(-time.Hour)), keys, nil, ErrSignature, "not yet made"},
		"signed in the future":   {signed(key, packet.Config{Time: at(time.Now().Add(48 * time.Hour))}), keys, nil, ErrSignature, "clock"},
		"signature expired":      {signed(key, packet.Config{Time: now.Time, SigLifetimeSecs: 60}), keys, nil, ErrSignature, "expired"},
		"short key":              {signed(short, now), shorts, nil, ErrSignature, "1024 bits"},
		"no signature":           {recipe{items: single}, keys, nil, ErrSignature, "not signed"},
		"no keys":                {signed(key, now), pgp.Ring{}, nil, ErrSignature, "0 keys"},
		"unknown key":            {signed(other, now), keys, nil, ErrSignature, "not among"},
		"known but not for this": {signed(key, now), joined(keys, others), others.Fingerprints(), ErrSignature, "not for this package"},
		"nothing binds":          {unbound(signed(key, now)), keys, nil, ErrSignature, "/a"},
		"MD5 binds nothing":      {md5, keys, nil, ErrSignature, "/a"},
		"empty signature":        {raw([]byte{0}), keys, nil, ErrSignature, "malformed"},
		"rubbish":                {raw([]byte("rubbish")), keys, nil, ErrSignature, "malformed"},
		"text signature":         {raw(textSigned(t, key)), keys, nil, ErrSignature, "type 0x1"},
		"signature of something": {raw(sign(t, key, []byte("something"), now)), keys, nil, ErrSignature, "key "},
		"two packets in one":     {raw(append(sign(t, other, []byte("x"), now), sign(t, key, []byte("x"), now)...)), keys, nil, ErrSignature, "one packet"},
		"base64 that is none": {recipe{items: single, sign: func(testing.TB, []byte, []byte) []Entry {
			return []Entry{{TagOpenPGP, TypeStringArray, []string{"%%"}}}
		}}, keys, nil, ErrSignature, "malformed"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, opened(t, c.r.build(t)), c.keys, c.prints, c.want, c.word)
		})
	}
}

func check(t *testing.T, f *File, keys pgp.Ring, prints []string, want error, word string) {
	t.Helper()
	got, err := f.Verify(keys, prints)
	if want == nil && (err != nil || got != word) {
		t.Errorf("Verify = %q, %v; want %s", got, err, word)
	} else if want != nil && (!errors.Is(err, want) || !strings.Contains(err.Error(), word)) {
		t.Errorf("Verify = %q, %v; want %v with %q", got, err, want, word)
	}
}

func joined(rings ...pgp.Ring) (all pgp.Ring) {
	for _, r := range rings {
		all.Keys = append(all.Keys, r.Keys...)
	}
	return all
}

func textSigned(t *testing.T, e *openpgp.Entity) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, openpgp.DetachSignText(&b, e, strings.NewReader("x"), nil))
	return b.Bytes()
}

func TestVerifySubkey(t *testing.T) {
	t.Parallel()
	c := packet.Config{Time: at(day)}
	e, _ := signer(t, c)
	c.Algorithm = packet.PubKeyAlgoEdDSA
	require.NoError(t, e.AddSigningSubkey(&c))
	keys := ring(t, e)
	sub := e.Subkeys[len(e.Subkeys)-1].PublicKey
	data := recipe{items: []repotest.File{{Name: "a", Body: "x"}}, sign: headerSigned(e, packet.Config{Time: at(day.Add(time.Minute)), SigningKeyId: sub.KeyId})}.build(t)
	for _, prints := range [][]string{nil, {pgp.Fingerprint(sub)}, keys.Fingerprints()} {
		check(t, opened(t, data), keys, prints, nil, keys.Fingerprints()[0])
	}
}

func TestVerifyRevoked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reason packet.ReasonForRevocation
		signed time.Duration // time after the creation of the key, which is revoked after a day
		ok     bool
	}{
		{packet.KeySuperseded, time.Hour, true},
		{packet.KeySuperseded, 48 * time.Hour, false},
		{packet.KeyRetired, time.Hour, true},
		{packet.KeyCompromised, time.Hour, false},
		{packet.NoReason, time.Hour, false},
	} {
		e, before := signer(t, packet.Config{Time: at(day)})
		data := recipe{items: []repotest.File{{Name: "a", Body: "x"}}, sign: headerSigned(e, packet.Config{Time: at(day.Add(c.signed))})}.build(t)
		require.NoError(t, e.RevokeKey(c.reason, "", &packet.Config{Time: at(day.Add(24 * time.Hour))}))
		after := ring(t, e)
		check(t, opened(t, data), before, nil, nil, before.Fingerprints()[0])
		for _, keys := range []pgp.Ring{after, joined(before, after), joined(after, before)} { // one copy with the revocation is enough
			if c.ok {
				check(t, opened(t, data), keys, nil, nil, before.Fingerprints()[0])
			} else {
				check(t, opened(t, data), keys, nil, ErrSignature, "revoked")
			}
		}
	}
}

// v3Signed returns a signature of version 3, as used by RHEL and its derivatives.
func v3Signed(t testing.TB, key *packet.PrivateKey, data []byte, number byte, h crypto.Hash) []byte {
	t.Helper()
	trailer := binary.BigEndian.AppendUint32([]byte{0}, uint32(day.Add(time.Hour).Unix()))
	w := h.New()
	w.Write(data)
	w.Write(trailer)
	sum := w.Sum(nil)
	mpi := require.Value(rsa.SignPKCS1v15(rand.Reader, key.PrivateKey.(*rsa.PrivateKey), h, sum))(t)
	mpi = bytes.TrimLeft(mpi, "\x00")
	bits := len(mpi) * 8
	for first := mpi[0]; first&0x80 == 0; first <<= 1 {
		bits--
	}
	body := append([]byte{3, 5}, trailer...)
	body = binary.BigEndian.AppendUint64(body, key.KeyId)
	body = append(body, 1, number, sum[0], sum[1], byte(bits>>8), byte(bits))
	body = append(body, mpi...)
	return append([]byte{0x89, byte(len(body) >> 8), byte(len(body))}, body...)
}

func TestVerifyVersion3(t *testing.T) {
	t.Parallel()
	e, keys := signer(t, packet.Config{Time: at(day), Algorithm: packet.PubKeyAlgoRSA, RSABits: 2048})
	single := []repotest.File{{Name: "a", Body: "x"}}
	pack := func(change func([]byte) []byte, number byte, h crypto.Hash) []byte {
		return recipe{items: single, sign: func(t testing.TB, header, _ []byte) []Entry {
			return []Entry{{TagRSAHeader, TypeBinary, change(v3Signed(t, e.PrivateKey, header, number, h))}}
		}}.build(t)
	}
	same := func(b []byte) []byte { return b }
	check(t, opened(t, pack(same, 8, crypto.SHA256)), keys, nil, nil, keys.Fingerprints()[0])
	check(t, opened(t, pack(same, 10, crypto.SHA512)), keys, nil, nil, keys.Fingerprints()[0])
	check(t, opened(t, pack(same, 2, crypto.SHA1)), keys, nil, ErrSignature, "weak digest")
	check(t, opened(t, pack(same, 9, crypto.SHA256)), keys, nil, ErrSignature, "another")
	// Every changed bit must be noticed, except in the bit length of the number, which is not used.
	for at := 3; at < 40; at++ {
		if at == 23 {
			continue
		}
		flipped := pack(func(b []byte) []byte { b[at] ^= 1; return b }, 8, crypto.SHA256)
		assert.Errorf(t, assert.Err(opened(t, flipped).Verify(keys, nil)), "byte %d changed", at)
	}
	for _, n := range []int{0, 1, 2, 3, 10, 24, 25, 100} {
		cut := pack(func(b []byte) []byte { return append([]byte{0x88, byte(n)}, b[3:3+n]...) }, 8, crypto.SHA256)
		check(t, opened(t, cut), keys, nil, ErrSignature, "malformed")
	}
}

// TestRealPackages reads the packages that the module cavaliergopher/rpm contains: releases of CentOS from
// 2.1 to 7, which hold the keys that signed them.
func TestRealPackages(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/cavaliergopher/rpm").Output()
	if err != nil {
		t.Skipf("the module's files cannot be found: %v", err)
	}
	dir := filepath.Join(strings.TrimSpace(string(out)), "testdata")
	weak := "weak digest"
	for name, want := range map[string]struct {
		signer, word string
		files        int
	}{
		"centos-release-as-2.1AS-4.noarch":               {"", "not signed", 10},
		"centos-release-4-0.1.x86_64":                    {"", weak, 16},
		"centos-release-5-0.0.el5.centos.2.x86_64":       {"", weak, 19},
		"centos-release-6-0.el6.centos.5.x86_64":         {"C1DAC52D1664E8A4386DBA430946FCA2C105B9DE", "", 19},
		"centos-release-7-2.1511.el7.centos.2.10.x86_64": {"6341AB2753D78A78A7C27BB124C6A8A7F4A80EB5", "", 28},
	} {
		data := readFile(t, filepath.Join(dir, name+".rpm"))
		f := opened(t, data)
		keys := pgp.Ring{}
		n := 0
		err := f.Payload(func(h *tar.Header, r io.Reader) error {
			n++
			if !strings.Contains(h.Name, "RPM-GPG-KEY") || h.Typeflag != tar.TypeReg {
				return nil
			}
			data, err := io.ReadAll(r)
			if err != nil {
				return err
			}
			keys.Add(h.Name, data)
			return nil
		})
		if err != nil || n != want.files {
			t.Errorf("%s: %d files, %v", name, n, err)
		}
		compareWithOther(t, data, f.Header)
		if want.signer != "" {
			check(t, f, keys, nil, nil, want.signer)
		} else {
			check(t, f, keys, nil, ErrSignature, want.word)
		}
		if i := bytes.LastIndex(data, []byte("CentOS")); i > 0 { // in the header, recognised by its position
			data = bytes.Clone(data)
			data[i] ^= 1
			f, err := Open(bytes.NewReader(data))
			if err == nil {
				_, err = f.Verify(keys, nil)
			}
			assert.Errorf(t, err, "%s: a changed header is verified", name)
		}
	}
}

// compareWithOther compares the whole header with the result of another library.
func compareWithOther(t *testing.T, data []byte, h *Header) {
	t.Helper()
	other := require.Value(rpm.Read(bytes.NewReader(data)))(t)
	for tag, value := range other.Header.Tags {
		if Tag(tag) >= TagHeaderImage && Tag(tag) <= TagHeaderImmutable {
			continue
		}
		var numbers []int64
		for _, n := range h.Ints(Tag(tag)) {
			numbers = append(numbers, int64(n))
		}
		switch want := value.Value.(type) {
		case []string:
			if !slices.Equal(h.Texts(Tag(tag)), want) {
				t.Errorf("tag %d: %q, want %q", tag, h.Texts(Tag(tag)), want)
			}
		case []int64:
			if !slices.Equal(numbers, want) {
				t.Errorf("tag %d: %d, want %d", tag, numbers, want)
			}
		case []byte:
			if !bytes.Equal(h.Binary(Tag(tag)), want) {
				t.Errorf("tag %d: %x, want %x", tag, h.Binary(Tag(tag)), want)
			}
		}
	}
	if len(tagsOf(h)) != len(other.Header.Tags)-1 && h.Immutable() {
		t.Errorf("%d tags, want %d", len(tagsOf(h)), len(other.Header.Tags)-1)
	}
}
