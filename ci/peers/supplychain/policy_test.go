package supplychain

import (
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
)

// TestPolicy proves the judge: it accepts what a key has signed under the right name, and nothing else.
func TestPolicy(t *testing.T) {
	judged(t)
	key, other := newHandKey(t), newHandKey(t)
	Registries(t, func(t *testing.T, host string) {
		policy := Policy{Key: key.public}
		repository := host + "/mirror/driver"
		pushImage(t, repository+":unsigned", "unsigned")
		refuses(t, policy, repository+":unsigned")

		key.sign(t, pushImage(t, repository+":1"), repository+":1")
		assert.NoError(t, policy.Accepts(t, repository+":1"))
		refuses(t, Policy{Key: other.public}, repository+":1")

		key.sign(t, pushImage(t, repository+":2", "2"), "registry.example.com/gpu/driver", "registry.example.com/gpu/driver:2")
		refuses(t, policy, repository+":2")
		remapped := Identity{Type: "remapIdentity", Prefix: host + "/mirror", SignedPrefix: "registry.example.com/gpu"}
		assert.NoError(t, Policy{key.public, &remapped}.Accepts(t, repository+":2"))
		remapped.SignedPrefix = "registry.example.com/other"
		refuses(t, Policy{key.public, &remapped}, repository+":2")
	})
}

func refuses(t *testing.T, p Policy, image string) {
	t.Helper()
	if err := p.Accepts(t, image); ExitCode(err) != PolicyRefused {
		t.Errorf("%s: exit code %d, %v; want %d", image, ExitCode(err), err, PolicyRefused)
	}
}
