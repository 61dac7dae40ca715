package flags

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
)

// TestProgramsFind: each program that images will lack is named once for each architecture.
func TestProgramsFind(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	a := &session.App{Stderr: &stderr, Binaries: func(arch string) ([]recipe.Binary, error) {
		all := []recipe.Binary{{Name: recipe.EntrypointName}, {Name: recipe.ProbeName}}
		if arch == "arm64" {
			return all[:1], nil
		}
		return all, nil
	}}
	targets := []matrix.Target{{Arch: "amd64"}, {Arch: "arm64"}, {Arch: "amd64"}}
	var p Programs
	_, err := p.Find(t.Context(), a, targets, true)
	require.NoError(t, err)
	assert.Equal(t, `warning: images for arm64 have no driver-probe: GPUs are asked with nvidia-smi, if the image has it
`, stderr.String())
	a.Binaries = func(string) ([]recipe.Binary, error) { return nil, errors.New("not there") }
	_, err = p.Find(t.Context(), a, targets, true)
	assert.Equal(t, session.ExitUsage, session.ExitCode(err))
	assert.ErrorContains(t, err, "not there")
}

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
