package helm

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/ci/cluster/control"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// TestForeignNames renders values with the names of the GPU Operator's chart, and the same with this chart's
// names.
func TestForeignNames(t *testing.T) {
	control.Gate(t)
	foreign := require.Value(template(t, setFlags("driver.enabled=true", "driver.repository=registry.example.com/gpu", "driver.image=nvidia", "driver.version=535.261.03",
		"os=debian12", "imagePullSecrets[0].name=a", "driver.imagePullSecrets[0]=b", "driver.imagePullSecrets[1]=a")...))(t)
	own := require.Value(template(t, setFlags("image.repository=registry.example.com/gpu/nvidia", "driver=535.261.03",
		"os=debian12", "image.pullSecrets={a,b}")...))(t)
	assert.Samef(t, own, foreign, "(-names of this chart +names of NVIDIA's)")
}

// A file of values for the GPU Operator gets a hint for each name, and one of an older version of this chart what an
// upgrade has to say: never the schema's bare complaint.
func TestForeignFiles(t *testing.T) {
	control.Gate(t)
	accepted := []string{"nfd", "driver", "gds", "gdrcopy"} // with a hint for some of what is below them
	operator := require.Value(os.ReadFile("testdata/operator.yaml"))(t)
	var names map[string]any
	require.NoError(t, yaml.Unmarshal(operator, &names))
	_, err := template(t, append(setFlags("os=ubuntu22.04"), "--values", "testdata/operator.yaml")...)
	for name := range names {
		line := "\n- " + name + ": "
		if slices.Contains(accepted, name) {
			line = "\n- " + name + "."
		}
		assert.ErrorContainsf(t, err, line, "values of the GPU Operator")
	}

	older := unpacked(t, previous)
	_, err = template(t, append([]string{"--values", filepath.Join(older, "values.yaml")}, minimal()...)...)
	for _, name := range []string{"kernelPostinstDir", "leastPrivilege", "nfd.featureFile", "nfd.featuresDir"} {
		want := "\n- " + name + ": an older chart had it. Upgrade with --reset-then-reuse-values instead of --reuse-values"
		assert.ErrorContainsf(t, err, want, "values of an older chart")
	}
}

// unpacked returns the folder of a chart from its archive.
func unpacked(t *testing.T, archive string) string {
	t.Helper()
	dir := t.TempDir()
	require.Value(tool.Run(t.Context(), ".", nil, "tar", "-xzf", archive, "-C", dir))(t)
	return filepath.Join(dir, "nvidia-driver")
}
