package kernel_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/distros/compression"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/rehearse/kernel"
)

// TestRealKernel gets Debian 12's newest kernel from its mirror, and again without a network.
func TestRealKernel(t *testing.T) {
	tool.Real(t, "it downloads a kernel, and needs mmdebstrap for Debian's base")
	project := require.Value(tool.Project())(t)
	base := strings.TrimSpace(require.Value(tool.Run(t.Context(), project, nil, "ci/base", "debian12"))(t))
	text := require.Value(os.ReadFile(filepath.Join(project, "matrix.yaml")))(t)
	m := require.Value(matrix.Parse("matrix.yaml", text))(t)
	targets := require.Value(m.Select(matrix.Selection{Systems: []string{"debian12"}, Drivers: []string{"535.261.03"}, Archs: []string{"amd64"}}))(t)
	dir := os.Getenv("KERN_CACHE")
	if dir == "" {
		dir = t.TempDir()
	}
	store := require.Value(fetch.OpenStore(dir))(t)
	b := &images.Builder{
		Store: store, Fetch: &fetch.Client{Store: store}, XZ: compression.FindXZ(),
		Registry: require.Value(registry.New(registry.Options{Store: store}))(t),
	}
	system := kernel.Source{Target: targets[0], Options: recipe.Options{Base: base}}
	query := kernel.Query{System: system, Programs: system, Release: os.Getenv("KERN_RELEASE"), Headers: os.Getenv("KERN_HEADERS") != ""}
	k, pins, err := kernel.Get(t.Context(), b, query)
	require.NoError(t, err)
	for _, p := range pins {
		t.Log(p.Name, p.Version)
	}
	b.Fetch.Offline = true
	again, _, err := kernel.Get(t.Context(), b, query)
	require.NoError(t, err)
	assert.Same(t, k, again)
	t.Logf("%+v", *k)
}
