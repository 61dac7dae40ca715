package signature

import (
	"crypto"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/kmod/sign/keyfile"
)

func manifests(all []oci.Attachment) []string {
	var out []string
	for _, a := range all {
		out = append(out, string(a.Manifest.Raw))
	}
	return out
}

// exported writes an export and returns its folder and the messages in it by name.
func exported(t *testing.T, r Request) (dir string, messages map[string][]byte) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "export")
	n := require.Value(Export(dir, r, nil))(t)
	messages = map[string][]byte{}
	for _, file := range require.Value(filepath.Glob(dir + "/*.payload"))(t) {
		messages[strings.TrimSuffix(filepath.Base(file), ".payload")] = require.Value(os.ReadFile(file))(t)
	}
	assert.Equal(t, n, len(messages))
	return dir, messages
}

// answer signs the messages and writes the signatures beside them.
func answer(t *testing.T, dir string, messages map[string][]byte, key string) {
	t.Helper()
	for name, message := range messages {
		signature := require.Value(signerOf(t, key).Sign(t.Context(), message))(t)
		if name[0] < '8' { // both forms
			signature = []byte(base64.StdEncoding.EncodeToString(signature) + "\n")
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".sig"), signature, 0o600))
	}
}

func TestDetached(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"rsa", "ed25519"} {
		dir, messages := exported(t, request(Both))
		assert.Equal(t, 5, len(messages))
		list := string(require.Value(os.ReadFile(filepath.Join(dir, ListName)))(t))
		for name, message := range messages {
			assert.Equal(t, name, oci.HashOf(message).Hex)
			assert.Contains(t, list, name+".payload  ")
		}
		assert.Contains(t, list, "signature of "+image.Digest.String()+" as registry.example.com/gpu/driver:535.261.03-debian12\n")
		assert.Contains(t, list, "attestation https://spdx.dev/Document of "+image.Digest.String()+"\n")
		answer(t, dir, messages, key)
		made := require.Value(Sign(t.Context(), request(Both), Imported{dir, keys()[key].Public()}))(t)
		assert.Samef(t, manifests(sign(t, request(Both), key)), manifests(made), "%s", key)
	}
}

// TestImportRefuses: every signature is verified before anything is made of it.
func TestImportRefuses(t *testing.T) {
	t.Parallel()
	public := keys()["p256"].Public()
	for name, c := range map[string]struct {
		spoil func(dir, file string) error
		want  string
	}{
		"missing":     {func(_, file string) error { return os.Remove(file) }, "no such file"},
		"empty":       {func(_, file string) error { return os.WriteFile(file, nil, 0o600) }, "no signature"},
		"large":       {func(_, file string) error { return os.WriteFile(file, make([]byte, maxOutput+1), 0o600) }, "larger than"},
		"other bytes": {func(_, file string) error { return os.WriteFile(file, make([]byte, 70), 0o600) }, "none of the given keys"},
		"a pipe": {func(_, file string) error {
			if err := os.Remove(file); err != nil {
				return err
			}
			return unix.Mkfifo(file, 0o600)
		}, "not a regular file"},
	} {
		dir, messages := exported(t, request(Legacy))
		answer(t, dir, messages, "p256")
		wanted := require.Value(request(Legacy).documents())(t)
		require.NoError(t, c.spoil(dir, filepath.Join(dir, messageName(wanted[len(wanted)-1].message())+".sig")))
		err := assert.Err(Sign(t.Context(), request(Legacy), Imported{dir, public}))
		assert.ErrorContainsf(t, err, c.want, "%s", name)
		assert.ErrorContainsf(t, err, "as registry.example.com/gpu/driver:535.261.03-debian12", "%s", name)
	}
	dir, messages := exported(t, request(Legacy))
	answer(t, dir, messages, "other")
	assert.ErrorIs(t, assert.Err(Sign(t.Context(), request(Legacy), Imported{dir, public})), ErrForeign)
	err := assert.Err(Sign(t.Context(), request(Legacy), Imported{t.TempDir(), public}))
	assert.ErrorContains(t, err, "attestation https://spdx", "attestation https://openvex", "as registry.example.com/gpu/driver:535") // all that are missing
	assert.ErrorIs(t, err, ErrUnsigned)
	assert.ErrorContains(t, assert.Err(Export(dir, request(Legacy), nil)), "not empty")
	signed := request(Legacy, sign(t, request(Legacy), "p256")...)
	assert.Equal(t, 0, require.Value(Export(t.TempDir(), signed, public))(t)) // what is signed already
}

// TestRealOpenSSL signs an export with the commands of docs/trust.md.
func TestRealOpenSSL(t *testing.T) {
	tool.Real(t, "signs with openssl")
	t.Parallel()
	for kind, args := range map[string][]string{
		"p256":    {"-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"},
		"p384":    {"-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"},
		"rsa":     {"-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:3072"},
		"ed25519": {"-algorithm", "ED25519"},
	} {
		dir, _ := exported(t, request(Both))
		openssl := func(args ...string) {
			t.Helper()
			cmd := exec.CommandContext(t.Context(), "openssl", args...)
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			require.NoErrorf(t, err, "openssl %v: %s", args, out)
		}
		openssl(append([]string{"genpkey", "-out", "../key.pem"}, args...)...)
		openssl("pkey", "-in", "../key.pem", "-pubout", "-out", "../key.pub")
		for _, file := range require.Value(filepath.Glob(dir + "/*.payload"))(t) {
			out := strings.TrimSuffix(file, ".payload") + ".sig"
			if kind == "ed25519" {
				openssl("pkeyutl", "-sign", "-inkey", "../key.pem", "-rawin", "-in", file, "-out", out)
			} else {
				openssl("dgst", "-sha256", "-sign", "../key.pem", "-out", out, file)
			}
		}
		public := require.Value(keyfile.LoadPublic(filepath.Join(dir, "../key.pub"), time.Now()))(t)
		made := require.Value(Sign(t.Context(), request(Both), Imported{dir, public[0]}))(t)
		r := require.Value(Verify([]Subject{{Descriptor: image, Attachments: made}}, public))(t)[0]
		assert.NoErrorf(t, r.Err(), "%s", kind)
	}
}

func TestProgram(t *testing.T) {
	t.Parallel()
	program := func(script string) string {
		return testfile.Write(t, filepath.Join(t.TempDir(), "signer"), "#!/bin/sh\n"+script+"\n")
	}
	dir, messages := exported(t, request(Both))
	answer(t, dir, messages, "rsa") // raw and in base64
	signs := program("cat " + dir + "/$(sha256sum | cut -c1-64).sig")
	public := keys()["rsa"].Public()
	made := require.Value(Sign(t.Context(), request(Both), Program{Path: signs, Key: public}))(t)
	assert.Same(t, manifests(sign(t, request(Both), "rsa")), manifests(made))
	assert.Equal(t, 2, len(require.Value(Sign(t.Context(), request(Legacy), Program{Path: signs}))(t)))
	for script, c := range map[string]struct {
		key  crypto.PublicKey
		want string
	}{
		"echo the key is locked >&2; exit 1": {nil, `it said "the key is locked"`},
		"exec sleep 60":                      {nil, "it took more than 900ms"},
		"exec yes":                           {nil, "it took more than"},
		"head -c 200000 /dev/zero":           {nil, "more than 16384 bytes"},
		"echo no":                            {nil, "which is no signature"},
		"cat >/dev/null":                     {nil, "it gave 0 bytes"},
		"cat " + dir + "/$(sha256sum | cut -c1-64).sig": {keys()["p256"].Public(), "does not fit its public key"},
	} {
		p := Program{Path: program(script), Key: c.key}
		if strings.HasPrefix(script, "exec") {
			p.Time = 900 * time.Millisecond
		}
		assert.ErrorContainsf(t, assert.Err(Sign(t.Context(), request(Legacy), p)), c.want, "%s", script)
	}
	assert.ErrorContains(t, assert.Err(Sign(t.Context(), request(Legacy), Program{Path: "/none"})), "sign with the program /none")
}
