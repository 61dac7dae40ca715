package main

import (
	"encoding/json"
	"os"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rehearse"
)

// TestRehearseRefuses: what cannot be rehearsed is one sentence with an exit code; no guest is started for it.
func TestRehearseRefuses(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.Run(t, "--os", "debian12", "--driver", newDriver, "--arch", "arm64", "--output", "oci:"+u.Path("arm64")).Want(t, 0)
	u.Run(t, "rehearse", "oci:"+u.Path("arm64")).Want(t, 4, "not there for linux/amd64; it is there for: linux/arm64")
	u.Run(t, "rehearse", u.Base("debian12")).Want(t, 2, "does not say for which system it is: give --os")
	u.Run(t, "rehearse", "oci:"+u.Path("nope")).Want(t, 2, "nope")
	u.Run(t, "rehearse", u.Host+"/gpu/nope:1").Want(t, 4, "gpu/nope:1")

	u.Run(t, "rehearse", u.Base("debian12"), "--timeout", "1ns").Want(t, 3, "the rehearsal was not over after 1ns: --timeout allows more")

	require.NoError(t, os.WriteFile(u.Path("values.yaml"), nil, 0o644))
	r := u.Run(t, "rehearse", "oci:"+u.Path("arm64"), "--values", u.Path("values.yaml"), "--chart", u.Path("arm64"))
	r.Want(t, 2, "read the chart ", "Chart.yaml")
}

// TestRehearseVerifies: an image that verify finds unfit is not rehearsed; the report names what was found.
func TestRehearseVerifies(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	labels := map[string]string{recipe.LabelDriver: newDriver, recipe.LabelSystem: "debian12"}
	image := imagetest.Image(t, "amd64", v1.Config{Labels: labels}, repotest.Compress(t, ".gz", imagetest.RandomTar(t, "x", 100)))
	require.NoError(t, oci.WriteLayout(t.Context(), u.Path("wrong"), "x", image))
	r := u.Run(t, "rehearse", "oci:"+u.Path("wrong"), "-o", "json").Want(t, 5, "the rehearsal failed: verify")
	goldentest.Schema(t, "rehearse.schema.json", r.Stdout)
	var report rehearse.Report
	require.NoError(t, json.Unmarshal([]byte(r.Stdout), &report))
	assert.Equal(t, 1, len(report.Rows))
	assert.Equal(t, true, len(report.Rows[0].Log) > 0 && !report.Passed)
	u.Run(t, "rehearse", "oci:"+u.Path("wrong")).Want(t, 5, "driver-build: the rehearsal failed: verify")
}
