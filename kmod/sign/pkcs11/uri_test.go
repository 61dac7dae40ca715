package pkcs11

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/driver-container/driver-container/ci/testkit/require"
)

func TestParse(t *testing.T) {
	t.Parallel()
	slot := uint(7)
	for text, want := range map[string]uri{
		"pkcs11:token=site;object=modules?module-path=/usr/lib/softhsm/libsofthsm2.so":             {token: "site", object: "modules", module: "/usr/lib/softhsm/libsofthsm2.so"},
		"pkcs11:slot-id=7;id=%01%00%ff?module-path=/l.so":                                          {slot: &slot, id: []byte{1, 0, 255}, module: "/l.so"},
		"pkcs11:serial=ab%20c;model=M%3b;manufacturer=X;id=a;type=private?module-path=/l.so":       {serial: "ab c", model: "M;", manufacturer: "X", id: []byte("a"), module: "/l.so"},
		"pkcs11:token=t;object=o?pin-source=file:/run/pin&module-path=/l.so":                       {token: "t", object: "o", pinFile: "/run/pin", module: "/l.so"},
		"pkcs11:token=t;object=o?pin-source=file:///run/pin&module-path=/l.so":                     {token: "t", object: "o", pinFile: "/run/pin", module: "/l.so"},
		"pkcs11:token=t;object=o?pin-source=/run/../run/pin&module-path=/a/../l.so":                {token: "t", object: "o", pinFile: "/run/pin", module: "/l.so"},
		"pkcs11:token=Schl%c3%bcssel;object=o%2Fp?module-path=%2Fusr%2Flib%2Fpkcs11%2Fmy%20hsm.so": {token: "Schlüssel", object: "o/p", module: "/usr/lib/pkcs11/my hsm.so"},
		"pkcs11:object=o;token=a+b?module-path=/l.so":                                              {token: "a+b", object: "o", module: "/l.so"},
	} {
		got, err := parse(text)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(uri{})); err != nil || diff != "" {
			t.Errorf("parse(%s): %v (-want +got):\n%s", text, err, diff)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                  "not a PKCS#11 URI",
		"file:/x":                           "not a PKCS#11 URI",
		"pkcs11:":                           "does not name the token's library",
		"pkcs11:token=t;object=o":           "?module-path=",
		"pkcs11:token=t?module-path=/l.so":  "does not name a key",
		"pkcs11:object=o?module-path=/l.so": "does not name a token",
		"pkcs11:token=t;object=o?module-path=l.so":                        "not absolute",
		"pkcs11:token=t;object=o?module-path=/l.so&pin-value=s3cret":      "pin-source=file:",
		"pkcs11:token=t;object=o;pin-value=s3cret?module-path=/l.so":      "pin-source=file:",
		"pkcs11:token=t;object=o?module-path=/l.so&pin-source=s3cret":     "absolute path",
		"pkcs11:token=t;object=o?module-path=/l.so&pin-source=|echo":      "absolute path",
		"pkcs11:token=t;object=o?module-path=/l.so&s3cret":                "no =",
		"pkcs11:token=t;object=o;type=cert?module-path=/l.so":             "not private",
		"pkcs11:token=t;object=o;slot-id=s3cret?module-path=/l.so":        "not a number",
		"pkcs11:token=t;token=u;object=o?module-path=/l.so":               "twice",
		"pkcs11:token=%zz;object=o?module-path=/l.so":                     "two hex digits",
		"pkcs11:token=a%00b;object=o?module-path=/l.so":                   "zero byte",
		"pkcs11:token=t;colour=s3cret;object=o?module-path=/l.so":         "\"colour\" is not known",
		"pkcs11:token=" + strings.Repeat("t", maxURI) + "?module-path=/l": "not a PKCS#11 URI",
	} {
		_, err := parse(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("parse(%s) = %v; want %q", text, err, want)
		}
	}
}

func TestPIN(t *testing.T) {
	t.Parallel()
	file := func(content string) string {
		path := filepath.Join(t.TempDir(), "pin")
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	gone := errors.New("gone")
	for name, c := range map[string]struct {
		u    uri
		pass func() ([]byte, error)
		want string
		err  string
	}{
		"file":     {uri{pinFile: file("1234\n")}, nil, "1234", ""},
		"function": {uri{}, func() ([]byte, error) { return []byte("5678"), nil }, "5678", ""},
		"both":     {uri{pinFile: file("1234")}, func() ([]byte, error) { return nil, gone }, "1234", ""},
		"none":     {uri{}, nil, "", "no PIN"},
		"gone":     {uri{}, func() ([]byte, error) { return nil, gone }, "", "gone"},
		"empty":    {uri{pinFile: file("\n")}, nil, "", "is empty"},
		"large":    {uri{pinFile: file(strings.Repeat("1", 4097))}, nil, "", "larger than"},
		"no file":  {uri{pinFile: "/none"}, nil, "", "/none"},
		"folder":   {uri{pinFile: t.TempDir()}, nil, "", "not a regular file"},
	} {
		got, err := c.u.pin(c.pass)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: pin = %q, %v; want %q, %q", name, got, err, c.want, c.err)
		}
	}
}

func TestOpenWithoutLibrary(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]string{
		"pkcs11:token=t;object=o?module-path=/none.so":    "PKCS#11",
		"pkcs11:token=t;object=o?module-path=/etc/passwd": "PKCS#11",
		"pkcs11:token=t": "module-path",
	} {
		if _, _, err := Open(uri, "", nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open(%s) = %v; want %q", uri, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("pkcs11:serial=ab%20c;model=M%3b;slot-id=1;manufacturer=X;id=a;type=private?module-path=/l.so&pin-source=file:/run/pin")
	f.Fuzz(func(t *testing.T, text string) {
		u, err := parse(text)
		if err == nil && (!filepath.IsAbs(u.module) || u.object == "" && len(u.id) == 0 || u.pinFile != "" && !filepath.IsAbs(u.pinFile)) {
			t.Errorf("parse(%q) = %+v", text, u)
		}
	})
}
