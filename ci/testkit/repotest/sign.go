package repotest

import (
	"bytes"
	"crypto"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/driver-container/driver-container/ci/testkit/require"
)

// Now is the day on which the tests read repositories.
var Now = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// At returns the settings of a key that is made, or that signs, at a time.
func At(t time.Time) *packet.Config {
	return &packet.Config{
		Time:        func() time.Time { return t },
		DefaultHash: crypto.SHA512,
		Algorithm:   packet.PubKeyAlgoEdDSA,
	}
}

// Key makes a key three years before Now; with a lifetime of 0 it has no end.
func Key(name string, lifetime time.Duration) *openpgp.Entity {
	return KeyAt(name, Now.AddDate(-3, 0, 0), lifetime)
}

// KeyAt makes a key at a time.
func KeyAt(name string, born time.Time, lifetime time.Duration) *openpgp.Entity {
	c := At(born)
	c.KeyLifetimeSecs = uint32(lifetime.Seconds())
	return KeyOf(name, c)
}

// KeyOf makes a key with these settings. It panics on errors, so that tests can make their keys
// once.
func KeyOf(name string, c *packet.Config) *openpgp.Entity {
	e, err := openpgp.NewEntity(name, "", name+"@example.com", c)
	if err != nil {
		panic(err) //nolint:forbidigo // see the comment
	}
	return e
}

// Armour returns an armoured block of one type.
func Armour(t testing.TB, kind string, write func(io.Writer) error) string {
	t.Helper()
	var b bytes.Buffer
	w := require.Value(armor.Encode(&b, kind, nil))(t)
	require.NoError(t, errors.Join(write(w), w.Close()))
	return b.String() + "\n"
}

// Public returns public keys, as armoured blocks.
func Public(t testing.TB, keys ...*openpgp.Entity) string {
	t.Helper()
	var b strings.Builder
	for _, e := range keys {
		b.WriteString(Armour(t, openpgp.PublicKeyType, e.Serialize))
	}
	return b.String()
}

// Fingerprint returns the fingerprint of a key, in capital hex.
func Fingerprint(e *openpgp.Entity) string { return fmt.Sprintf("%X", e.PrimaryKey.Fingerprint) }

// Detached returns an armoured block with a signature of each key.
func Detached(t testing.TB, text string, when time.Time, keys ...*openpgp.Entity) []byte {
	t.Helper()
	return []byte(
		strings.TrimSuffix(Armour(t, openpgp.SignatureType, func(w io.Writer) (err error) {
			for _, e := range keys {
				err = errors.Join(err, openpgp.DetachSign(w, e, strings.NewReader(text), At(when)))
			}
			return err
		}), "\n"),
	)
}

// Clearsigned returns a text that contains signatures of the keys, like InRelease.
func Clearsigned(t testing.TB, text string, when time.Time, keys ...*openpgp.Entity) []byte {
	t.Helper()
	var private []*packet.PrivateKey
	for _, e := range keys {
		private = append(private, e.PrivateKey)
	}
	var b bytes.Buffer
	w := require.Value(clearsign.EncodeMulti(&b, private, At(when)))(t)
	require.Value(io.WriteString(w, text))(t)
	require.NoError(t, w.Close())
	return append(b.Bytes(), '\n')
}
