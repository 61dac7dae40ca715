package registry

import (
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/driver-container/driver-container/ci/ocitest"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/images/oci"
)

// NoCredentials is a keychain without credentials: tests must not read those of the user who runs them.
type NoCredentials struct{}

func (NoCredentials) Resolve(authn.Resource) (authn.Authenticator, error) {
	return authn.Anonymous, nil
}

// mustPush pushes with a new client.
func mustPush(t *testing.T, ref string, a oci.Artifact, tags ...string) Stats {
	t.Helper()
	got, stats, err := client(t).Push(t.Context(), ref, a, tags...)
	require.NoError(t, err)
	if want := ocitest.Digest(t, a); got != want {
		t.Fatalf("Push = %s; want %s", got, want)
	}
	return stats
}
