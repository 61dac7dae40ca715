package main

import (
	"encoding/json"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/verify"
)

// TestInspectPullsNoLayer: manifest and config are enough for what an image says of itself. Its layers are
// read with --deep only, which finds the same.
func TestInspectPullsNoLayer(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	repository := u.Host + "/gpu/driver"
	u.Run(t, "--os", "debian12", "--driver", newDriver, "--push", "--repository", repository).Want(t, 0)
	image := repository + ":" + newDriver + "-debian12"
	see := func(flags ...string) (i verify.Inspection, blobs int) {
		u.Cache = t.TempDir() // another machine
		before := u.Requests("/blobs/")
		r := u.Run(t, append([]string{"inspect", image, "-o", "json"}, flags...)...).Want(t, 0)
		goldentest.Schema(t, "inspect.schema.json", r.Stdout)
		require.NoError(t, json.Unmarshal([]byte(r.Stdout), &i))
		return i, u.Requests("/blobs/") - before
	}
	quick, blobs := see()
	assert.Equalf(t, 1, blobs, "blobs: the config")
	deep, blobs := see("--deep")
	if blobs < 4 {
		t.Errorf("--deep asked for %d blobs", blobs)
	}
	if quick.Deep || !deep.Deep || len(quick.Packages) > 0 || len(deep.Packages) == 0 || len(deep.Libraries) == 0 {
		t.Errorf("at once: %+v\n--deep: %+v", quick, deep)
	}
	deep.Deep, deep.Libraries, deep.Programs, deep.Lacks, deep.Firmware, deep.Packages, deep.Description = false, nil, nil, nil, nil, nil, nil
	assert.Samef(t, deep, quick, "what labels and files say (-files +labels)")

	// An image that is none of ours has no such labels.
	r := u.Run(t, "inspect", u.Base("debian12")).Want(t, 0, "note: the image's labels do not name its driver: inspect --deep")
	assert.Contains(t, r.Stdout, "Driver   unknown")
}
