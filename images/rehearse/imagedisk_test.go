package rehearse

import (
	"os"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/fetch"
)

// TestImageDisk: the disk of an image is made once, and once more if the cache has lost it; each time it is the same.
func TestImageDisk(t *testing.T) {
	t.Parallel()
	store := require.Value(fetch.OpenStore(t.TempDir()))(t)
	layer := repotest.Compress(t, ".gz", imagetest.RandomTar(t, "x", 100_000))
	image := imagetest.Image(t, "amd64", v1.Config{Env: []string{"A=b"}}, layer)
	var first []byte
	for i, wantLink := range []bool{false, true, false} {
		dir := t.TempDir()
		made := require.Value(imageDisk(t.Context(), store, image, dir))(t)
		again := require.Value(imageDisk(t.Context(), store, image, dir))(t)
		assert.Equalf(t, made.Disk, again.Disk, "an image that is its own previous one")
		assert.Same(t, []string{"A=b"}, made.Env)
		content := require.Value(os.ReadFile(made.Disk))(t)
		if i == 0 {
			first = content
		}
		assert.Equalf(t, string(first), string(content), "disk %d", i)
		file, err := os.Readlink(made.Disk)
		assert.Equalf(t, wantLink, err == nil, "disk %d is in the cache", i)
		if err == nil {
			require.NoError(t, os.Remove(file))
		}
	}
}
