package lint

import (
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// card lists the packages that the project was asked to stand on, and the programs whose work each has a part
// in. None may be replaced by code of our own, or be left in go.mod without work.
var card = []struct {
	path     string // of a package; all below it count
	module   string
	programs []string
}{
	{"github.com/google/go-containerregistry", "github.com/google/go-containerregistry", []string{"cmd/driver-build"}},
	{"github.com/moby/buildkit/client", "github.com/moby/buildkit", []string{"cmd/driver-build"}},
	{"github.com/spf13/cobra", "github.com/spf13/cobra", []string{"cmd/driver-build", "cmd/driver-entrypoint"}},
	{"github.com/u-root/u-root/pkg/kmodule", "github.com/u-root/u-root", []string{"cmd/driver-entrypoint"}},
	{"github.com/NVIDIA/go-nvml", "github.com/NVIDIA/go-nvml", []string{"cmd/driver-probe"}}, // the entrypoint's child
	{"github.com/hashicorp/go-version", "github.com/hashicorp/go-version", []string{"cmd/driver-build"}},
}

// TestCard: each package of the card is a direct requirement, and code of its programs that is no test imports it.
func TestCard(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(root + "/go.mod")
	require.NoError(t, err)
	file, err := modfile.Parse("go.mod", text, nil)
	require.NoError(t, err)
	all := packages(t)
	for _, c := range card {
		direct := slices.ContainsFunc(file.Require, func(r *modfile.Require) bool { return r.Mod.Path == c.module && !r.Indirect })
		assert.Equalf(t, true, direct, "go.mod requires %s directly", c.module)
		for _, program := range c.programs {
			assert.Equalf(t, true, imports(all, program, c.path), "code of %s imports %s", program, c.path)
		}
	}
}

// imports reports whether a package of the project that a program has in it imports one of a tree.
func imports(all []pkg, program, tree string) bool {
	at := slices.IndexFunc(all, func(p pkg) bool { return p.name() == program })
	if at < 0 {
		return false
	}
	return slices.ContainsFunc(all, func(p pkg) bool {
		linked := p.name() == program || slices.Contains(all[at].Deps, p.ImportPath)
		return linked && slices.ContainsFunc(p.Imports, func(path string) bool { return under(path, tree) })
	})
}

// TestTopLevel: what the card names at the top of the repository is there.
func TestTopLevel(t *testing.T) {
	t.Parallel()
	for name := range strings.FieldsSeq("cmd/driver-entrypoint/ cmd/driver-build/ distros/ kmod/ images/ ci/ Makefile go.mod matrix.yaml") {
		info, err := os.Stat(root + "/" + name)
		require.NoError(t, err)
		assert.Equalf(t, strings.HasSuffix(name, "/"), info.IsDir(), "%s is a folder", name)
	}
}
