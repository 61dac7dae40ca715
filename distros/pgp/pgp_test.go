package pgp

import (
	"bytes"
	"crypto"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

var (
	testNow = repotest.Now
	at      = repotest.At
)

func TestDetached(t *testing.T) {
	t.Parallel()
	good, stranger, old := repotest.Key("test", 0), repotest.Key("test", 0), repotest.Key("test", 2*365*24*time.Hour)
	weak := at(testNow)
	weak.Algorithm, weak.RSABits = packet.PubKeyAlgoRSA, 1024
	short := repotest.KeyOf("short", weak)
	sign := func(e *openpgp.Entity, when time.Time) []byte {
		var b bytes.Buffer
		require.NoError(t, openpgp.DetachSign(&b, e, strings.NewReader("text"), at(when)))
		return b.Bytes()
	}
	mine, theirs, late := sign(good, testNow), sign(stranger, testNow), sign(old, testNow.AddDate(-2, 0, 0))
	armoured := repotest.Armour(t, openpgp.SignatureType, func(w io.Writer) error { _, err := w.Write(mine); return err })
	for name, c := range map[string]struct {
		text string
		sig  []byte
		keys []*openpgp.Entity
		old  bool
		want error
		say  string
	}{
		"binary":              {"text", mine, []*openpgp.Entity{good}, false, nil, ""},
		"armoured":            {"text", []byte(armoured), []*openpgp.Entity{good}, false, nil, ""},
		"the second of two":   {"text", append(bytes.Clone(theirs), mine...), []*openpgp.Entity{good}, false, nil, ""},
		"of a stranger":       {"text", theirs, []*openpgp.Entity{good}, false, ErrSignature, "not trusted"},
		"of another text":     {"other", mine, []*openpgp.Entity{good}, false, ErrSignature, ""},
		"none":                {"text", nil, []*openpgp.Entity{good}, false, ErrSignature, "no signature"},
		"no key":              {"text", mine, nil, false, ErrSignature, "use the hint"},
		"expired key":         {"text", late, []*openpgp.Entity{old}, false, ErrExpired, "expiry"},
		"short key":           {"text", sign(short, testNow), []*openpgp.Entity{short}, true, ErrSignature, "1024 bits"},
		"expired key allowed": {"text", late, []*openpgp.Entity{old}, true, nil, ""},
		"not a signature":     {"text", []byte("-----BEGIN PGP SIGNATURE-----\n"), []*openpgp.Entity{good}, false, ErrSignature, "malformed"},
	} {
		tr := Trust{Ring: Ring{Keys: c.keys}, Now: testNow, AllowExpired: c.old, Hint: "use the hint"}
		if err := tr.Detached([]byte(c.text), c.sig); !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), c.say) {
			t.Errorf("%s: %v; want %v with %q", name, err, c.want, c.say)
		}
	}
}

func TestClearsigned(t *testing.T) {
	t.Parallel()
	good := repotest.Key("test", 0)
	var b bytes.Buffer
	w, err := clearsign.Encode(&b, good.PrivateKey, at(testNow))
	if err == nil {
		_, err = io.WriteString(w, "text\n")
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	tr := Trust{Ring: Ring{Keys: openpgp.EntityList{good}}, Now: testNow}
	assert.Equal(t, "text\n", string(require.Value(tr.Clearsigned(b.Bytes()))(t)))
	for name, data := range map[string]string{
		"text before": "x\n" + b.String(), "text behind": b.String() + "\nx", "no message": "x",
		"twice": b.String() + b.String(), "a header beside Hash": strings.Replace(b.String(), "MESSAGE-----\n", "MESSAGE-----\nOrigin: x\n", 1),
		"changed": strings.Replace(b.String(), "text", "Text", 1),
	} {
		assert.ErrorIsf(t, assert.Err(tr.Clearsigned([]byte(data))), ErrSignature, "%s", name)
	}
}

// TestWeakDigest: a good signature of a trusted key over a weak digest does not count. (go-crypto makes none
// with SHA-1.)
func TestWeakDigest(t *testing.T) {
	t.Parallel()
	c := at(testNow.AddDate(-3, 0, 0))
	c.RSABits = 2048
	key := repotest.KeyOf("rsa", c)
	if Strong(crypto.SHA1) || Strong(crypto.MD5) || Strong(crypto.RIPEMD160) {
		t.Error("SHA-1, MD5 or RIPEMD-160 count as strong")
	}
	for h, ok := range map[crypto.Hash]bool{crypto.SHA224: false, crypto.SHA256: true, crypto.SHA384: true} {
		sig := &packet.Signature{
			Version: 4, SigType: packet.SigTypeBinary, PubKeyAlgo: key.PrimaryKey.PubKeyAlgo, Hash: h,
			CreationTime: testNow, IssuerKeyId: &key.PrimaryKey.KeyId,
		}
		config, digest := at(testNow), h.New()
		config.DefaultHash = h
		digest.Write([]byte("text"))
		if err := sig.Sign(digest, key.PrivateKey, config); err != nil {
			t.Fatal(h, err)
		}
		var b bytes.Buffer
		require.NoError(t, sig.Serialize(&b))
		err := Trust{Now: testNow, Ring: Ring{Keys: openpgp.EntityList{key}}}.Detached([]byte("text"), b.Bytes())
		if ok != (err == nil) || !ok && (!errors.Is(err, ErrSignature) || !strings.Contains(err.Error(), "weak")) {
			t.Errorf("%v: %v", h, err)
		}
	}
}

func TestReadKeys(t *testing.T) {
	t.Parallel()
	one, two := repotest.Key("test", 0), repotest.Key("test", 0)
	armoured := func(e *openpgp.Entity) string { return repotest.Armour(t, openpgp.PublicKeyType, e.Serialize) }
	unreadable := repotest.Armour(t, openpgp.PublicKeyType, func(w io.Writer) error { _, err := w.Write([]byte{0x99, 0, 1, 9}); return err })
	var binary bytes.Buffer
	require.NoError(t, errors.Join(one.Serialize(&binary), two.Serialize(&binary)))
	for name, c := range map[string]struct {
		data string
		keys int
	}{
		"binary": {binary.String(), 2}, "armoured": {armoured(one), 1}, "two blocks": {"a comment\n" + armoured(one) + "\n" + armoured(two), 2},
		"one of two cannot be read": {unreadable + armoured(one), 1}, "none can be read": {unreadable, 0}, "nothing": {"", 0},
		"cut": {armoured(one)[:60], 0}, "another block": {repotest.Armour(t, openpgp.SignatureType, one.Serialize), 0},
		"keybox": {"\x00\x00\x00\x20\x01\x01\x00\x02KBXf\x00", 0},
	} {
		keys, err := ReadKeys([]byte(c.data))
		if len(keys) != c.keys || (err == nil) != (c.keys > 0) {
			t.Errorf("%s: %d keys, %v", name, len(keys), err)
		}
	}
}

// FuzzTrust: only texts that a trusted key signed may pass.
func FuzzTrust(f *testing.F) {
	f.Add([]byte("-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\nSuite: x\n-----BEGIN PGP SIGNATURE-----\n\niHUE\n=abcd\n-----END PGP SIGNATURE-----\n"))
	f.Add([]byte("-----BEGIN PGP SIGNATURE-----\n\niHUE\n=abcd\n-----END PGP SIGNATURE-----\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		tr := Trust{Now: testNow}
		assert.Errorf(t, assert.Err(tr.Clearsigned(data)), "a signed text was accepted without a key")
		assert.Errorf(t, tr.Detached([]byte("text"), data), "a signature was accepted without a key")
		if keys, err := ReadKeys(data); (len(keys) > 0) != (err == nil) && err == nil {
			t.Error("no keys, no error")
		}
	})
}
