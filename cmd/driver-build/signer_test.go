package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"software.sslmate.com/src/go-pkcs12"

	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/kmod/sign/keyfile"
)

// newSignKey makes a key, in PKCS#12 with the passphrase "correct", and its certificate.
func newSignKey(t *testing.T) (keyFile, certFile string) {
	t.Helper()
	key := require.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(5), Subject: pkix.Name{CommonName: "Site"}, NotAfter: time.Unix(4e9, 0)}
	der := require.Value(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	cert := require.Value(x509.ParseCertificate(der))(t)
	p12 := require.Value(pkcs12.Modern.Encode(key, cert, nil, "correct"))(t)
	dir := t.TempDir()
	keyFile, certFile = filepath.Join(dir, "key.p12"), filepath.Join(dir, "cert.pem")
	require.NoError(t, errors.Join(os.WriteFile(keyFile, p12, 0o600),
		os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)))
	return keyFile, certFile
}

func TestSignerFlags(t *testing.T) {
	t.Parallel()
	key, cert := newSignKey(t)
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	for name, c := range map[string]struct {
		flags signerFlags
		env   string
		want  string // part of the error
	}{
		"none":              {signerFlags{}, "", ""},
		"environment":       {signerFlags{key: key}, "correct", ""},
		"with certificate":  {signerFlags{key: key, cert: cert}, "correct", ""},
		"file":              {signerFlags{key: key, passphraseFile: file("right", "correct\n")}, "", ""},
		"the file counts":   {signerFlags{key: key, passphraseFile: file("right", "correct\r\n")}, "wrong", ""},
		"wrong environment": {signerFlags{key: key}, "wrong", "the passphrase is missing or wrong"},
		"wrong file":        {signerFlags{key: key, passphraseFile: file("wrong", "wrong")}, "", "the passphrase is missing or wrong"},
		"no file":           {signerFlags{key: key, passphraseFile: dir + "/none"}, "", "--sign-passphrase-file"},
		"large file":        {signerFlags{key: key, passphraseFile: file("large", strings.Repeat("x", 5000))}, "", "a passphrase only"},
		"no key":            {signerFlags{key: dir + "/none"}, "", "--sign-key"},
		"token":             {signerFlags{key: "pkcs11:object=o"}, "", "--sign-key: open the PKCS#11 key"},
	} {
		signer, closer, err := c.flags.load(func(name string) string {
			if name == passphraseVariable {
				return c.env
			}
			return ""
		})
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "correct")) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
		if (signer == nil) != (err != nil || c.flags.key == "") || closer() != nil {
			t.Errorf("%s: signer %v", name, signer)
		}
	}
	if _, _, err := (&signerFlags{key: key}).load(func(string) string { return "" }); !errors.Is(err, keyfile.ErrPassphrase) {
		t.Errorf("no passphrase: %v", err)
	}
	for _, c := range []struct {
		flags  signerFlags
		wanted bool
		want   string
	}{
		{signerFlags{}, false, ""},
		{signerFlags{key: key}, true, ""},
		{signerFlags{key: key}, false, "--kernel"},
		{signerFlags{cert: cert}, true, "--sign-key"},
		{signerFlags{passphraseFile: "x"}, false, "--sign-key"},
	} {
		if err := c.flags.check(c.wanted); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v; want %q", c.flags, err, c.want)
		}
	}
}
