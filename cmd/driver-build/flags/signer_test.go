package flags

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/commandtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/kmod/sign/keyfile"
)

func TestSignerFlags(t *testing.T) {
	t.Parallel()
	key, cert := commandtest.SignKey(t)
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	for name, c := range map[string]struct {
		flags Signer
		env   string
		want  string // part of the error
	}{
		"none":              {Signer{}, "", ""},
		"environment":       {Signer{Key: key}, "correct", ""},
		"with certificate":  {Signer{Key: key, Cert: cert}, "correct", ""},
		"file":              {Signer{Key: key, PassphraseFile: file("right", "correct\n")}, "", ""},
		"the file counts":   {Signer{Key: key, PassphraseFile: file("right", "correct\r\n")}, "wrong", ""},
		"wrong environment": {Signer{Key: key}, "wrong", "the passphrase is missing or wrong"},
		"wrong file":        {Signer{Key: key, PassphraseFile: file("wrong", "wrong")}, "", "the passphrase is missing or wrong"},
		"no file":           {Signer{Key: key, PassphraseFile: dir + "/none"}, "", "--module-passphrase-file"},
		"large file":        {Signer{Key: key, PassphraseFile: file("large", strings.Repeat("x", 5000))}, "", "a passphrase only"},
		"no key":            {Signer{Key: dir + "/none"}, "", "--module-key"},
		"token":             {Signer{Key: "pkcs11:object=o"}, "", "--module-key: open the PKCS#11 key"},
	} {
		signer, err := c.flags.Load(&session.App{Getenv: func(name string) string { return map[string]string{PassphraseVariable: c.env}[name] }})
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "correct")) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
		if (signer == nil) != (err != nil || c.flags.Key == "") {
			t.Errorf("%s: signer %v", name, signer)
		}
	}
	if _, err := (&Signer{Key: key}).Load(&session.App{Getenv: func(string) string { return "" }}); !errors.Is(err, keyfile.ErrPassphrase) {
		t.Errorf("no passphrase: %v", err)
	}
}
