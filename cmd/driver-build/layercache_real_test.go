package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// layersIn are the digests of an image's layers in a registry, by their names.
func (u *user) layersIn(t *testing.T, ref string) map[string]string {
	t.Helper()
	r := u.Run(t, "inspect", ref, "-o", "json").Want(t, 0)
	all := map[string]string{}
	for _, m := range regexp.MustCompile(`"digest": "(sha256:[0-9a-f]{64})",[^}]*"createdBy": "([^"]*)"`).FindAllStringSubmatch(r.Stdout, -1) {
		_, name, _ := strings.Cut(m[2], ": ")
		all[name] = m[1]
	}
	return all
}

// TestRealDamage: whatever happens to a layer on the disk of Debian's docker-registry, a build that writes to
// this machine has the right image. A build that pushes sends again what the registry lost.
func TestRealDamage(t *testing.T) {
	t.Parallel()
	d, u := imagetest.NewDistribution(t), newUser(t)
	repository := d.Host + "/team/driver"
	args := []string{"--os", "ubuntu18.04", "--driver", newDriver}
	push := append(args, "--push", "--repository", repository, "--sbom")
	first := u.Run(t, push...).Want(t, 0)
	layers := u.layersIn(t, repository+":535.261.03-ubuntu18.04")
	for name, damage := range map[string]func([]byte) []byte{
		"changed": func(b []byte) []byte { b[len(b)/2] ^= 1; return b }, "zeros": func(b []byte) []byte { return make([]byte, len(b)) },
		"truncated": func(b []byte) []byte { return b[:len(b)/2] }, "longer": func(b []byte) []byte { return append(b, "more"...) },
		"empty": func([]byte) []byte { return nil }, "another layer": func([]byte) []byte {
			return require.Value(os.ReadFile(d.Blob(layers["entrypoint"])))(t)
		}, "removed": nil,
	} {
		good, parts := map[string][]byte{}, []string{}
		for _, layer := range []string{"packages", "user-mode driver"} {
			file := d.Blob(layers[layer])
			good[file] = require.Value(os.ReadFile(file))(t)
			if damage == nil {
				require.NoError(t, os.Remove(file))
			} else {
				require.NoError(t, os.WriteFile(file, damage(bytes.Clone(good[file])), 0o600))
			}
			parts = append(parts, "the "+layer+" layer is made here, because the registry's copy cannot be used")
		}
		m := u.fresh(t)
		r := m.Run(t, append(args, "--output", "oci:"+m.Path("dist"), "--cache-from", repository)...)
		r.Want(t, 0, parts...)
		assert.Equalf(t, first.Digest(t), r.Digest(t), "%s", name)
		m.Run(t, "verify", "oci:"+m.Path("dist")).Want(t, 0)
		if damage == nil {
			lost := "had lost the blob "
			r := u.fresh(t).Run(t, push...).Want(t, 0, lost+layers["packages"], lost+layers["user-mode driver"])
			assert.Equal(t, first.Stdout, r.Stdout)
			for file, content := range good {
				assert.Equalf(t, true, bytes.Equal(content, require.Value(os.ReadFile(file))(t)), "%s on the registry's disk", file)
			}
			u.fresh(t).Run(t, "verify", repository+":535.261.03-ubuntu18.04").Want(t, 0)
		}
		for file, content := range good {
			require.NoError(t, os.WriteFile(file, content, 0o600))
		}
	}
}
