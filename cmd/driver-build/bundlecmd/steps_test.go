package bundlecmd

import (
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/commandtest"
)

// TestProgress looks at what is shown of create, verify and import: how far each is, and the total.
func TestProgress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := w.path("fleet.tar")
	for _, c := range []struct {
		step string
		args []string
	}{
		{"[-] write", []string{"create", "--output", "-", "--repository", w.origin}},
		{"[" + file + "] write", []string{"create", "--output", file, "--repository", w.origin}},
		{"[" + file + "] verify", []string{"verify", file, "--allow-unsigned"}},
		{"[" + w.site + "] import", []string{"import", file, "--to", w.site, "--allow-unsigned"}},
	} {
		args := append(append([]string{"bundle"}, c.args...), "--cache", w.path("cache"), "--progress", "json")
		commandtest.Call(t.Context(), t, root, nil, args...).Want(t, 0, c.step, `"current":`, `"total":`, `"completed":`)
	}
}
