package cluster

import (
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/ci/tool"
)

// PushProgram compiles one of the project's programs, in a folder relative to this package, pushes an image
// with it on the PATH as name, and returns the image's name on the node.
func (c *Cluster) PushProgram(folder, name string) string {
	c.t.Helper()
	c.registry.push(c.t, name+":1", oneFile(c.t, "usr/bin/"+name, goProgram(c.t, folder)))
	return guestRegistry + "/" + name + ":1"
}

// goProgram compiles a program for the guest, in a folder relative to this package.
func goProgram(t testing.TB, folder string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), filepath.Base(folder))
	require.NoError(t, tool.Build(t.Context(), path, filepath.Join("ci/cluster", folder), "GOARCH=amd64"))
	return path
}
