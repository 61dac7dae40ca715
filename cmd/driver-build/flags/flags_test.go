package flags

import (
	"io"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/matrix"
)

// TestArchitectures: every command asks Images, so that all of them mean the same images.
func TestArchitectures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		given, kernels, want []string
	}{
		{nil, nil, []string{"amd64"}},
		{nil, []string{"6.1.0-56-arm64", "6.1.0-55-arm64"}, []string{"arm64"}},
		{nil, []string{"6.1.0-56-amd64", "6.1.0-56-arm64"}, []string{"amd64", "arm64"}},
		{nil, []string{"6.1.0-56-arm64", "latest"}, []string{"amd64"}},
		{[]string{"arm64"}, []string{"6.1.0-56-amd64"}, []string{"arm64"}},
	} {
		o := Request{Kernels: Kernels{Specs: c.kernels}, Targets: Targets{
			Matrix:    Matrix{"../../../matrix.yaml"},
			Selection: matrix.Selection{Systems: []string{"debian12"}, Drivers: []string{"535.261.03"}, Archs: c.given},
		}}
		a := &session.App{Stderr: io.Discard, Getenv: func(string) string { return "" }}
		m := require.Value(o.Targets.Load(a))(t)
		q := require.Value(o.Images(a, m))(t)
		var archs []string
		for _, target := range q.Targets {
			archs = append(archs, target.Arch)
		}
		assert.Same(t, c.want, archs)
	}
}
