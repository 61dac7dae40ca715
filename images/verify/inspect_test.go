package verify

import (
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/recipe"
)

func TestSummarizeBase(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, digest, want string }{
		{"docker.io/library/debian:12-slim", "sha256:1", "docker.io/library/debian:12-slim@sha256:1"},
		{"", "sha256:1", "sha256:1"},
		{"", "", ""},
	} {
		img := require.Value(mutate.Config(empty.Image, v1.Config{Labels: map[string]string{recipe.OCIPrefix + "base.name": c.name, recipe.OCIPrefix + "base.digest": c.digest}}))(t)
		assert.Equalf(t, c.want, require.Value(Summarize(img))(t).Base, "base %q %q", c.name, c.digest)
	}
}
