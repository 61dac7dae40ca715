package kernel_test

import (
	"context"
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
	"github.com/driver-container/driver-container/images/rehearse/guest"
	"github.com/driver-container/driver-container/images/rehearse/kernel"
)

// TestRealKernel gets Debian 12's newest kernel from its mirror, and again without a network, and boots it.
func TestRealKernel(t *testing.T) {
	tool.Real(t, "it downloads a kernel, and needs QEMU, and mmdebstrap for Debian's base")
	project := require.Value(tool.Project())(t)
	base := strings.TrimSpace(require.Value(tool.Run(t.Context(), project, nil, "ci/base", "debian12"))(t))
	text := require.Value(os.ReadFile(filepath.Join(project, "matrix.yaml")))(t)
	m := require.Value(matrix.Parse("matrix.yaml", text))(t)
	targets := require.Value(m.Select(matrix.Selection{Systems: []string{"debian12"}, Drivers: []string{"535.261.03"}, Archs: []string{"amd64"}}))(t)
	store := require.Value(fetch.OpenStore(t.TempDir()))(t)
	b := &images.Builder{
		Store: store, Fetch: &fetch.Client{Store: store}, XZ: compression.FindXZ(),
		Registry: require.Value(registry.New(registry.Options{Store: store}))(t),
	}
	system := kernel.Source{Target: targets[0], Options: recipe.Options{Base: base}}
	query := kernel.Query{System: system, Programs: system}
	k, _, err := kernel.Get(t.Context(), b, query)
	require.NoError(t, err)
	b.Fetch.Offline = true
	again, _, err := kernel.Get(t.Context(), b, query)
	require.NoError(t, err)
	assert.Same(t, k, again)
	assert.Equalf(t, false, k.Image == k.Signed, "QEMU starts the kernel inside the image")

	program := filepath.Join(t.TempDir(), "driver-guest")
	require.NoError(t, tool.Build(t.Context(), program, "cmd/driver-guest", "GOARCH=amd64"))
	g := require.Value(guest.Start(t.Context(), guest.Config{Kernel: k, Program: program, Dir: t.TempDir(), Accel: guest.TCG}))(t)
	t.Cleanup(func() { assert.NoError(t, g.Close(context.Background())) })
	assert.Equal(t, k.Release, g.Release)
	// other modules with what they need, by the kernel's request for a file system too; and a program with libraries
	for _, command := range []string{"modprobe nouveau", "modprobe i2c-dev", "mkdir -p /tmp/x; mount -t fuse none /tmp/x; grep fuse /proc/modules", "runc --version"} {
		result := require.Value(g.Run(t.Context(), "sh", "-c", command))(t)
		assert.Equalf(t, 0, result.Code, "%s: %s", command, result.Output)
	}
}
