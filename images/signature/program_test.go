package signature

import (
	"crypto"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

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
