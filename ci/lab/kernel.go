package lab

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/compression"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/rehearse/guest"
	"github.com/driver-container/driver-container/images/rehearse/kernel"
)

// kernelRecipe is part of the cache's names: increase it when the files of a kernel change.
const kernelRecipe = "3"

// HostKernel is a Debian kernel with its modules and headers.
type HostKernel struct {
	System  string // "debian12"
	Release string // "6.1.0-56-amd64"
	// folder on this machine: usr/lib/modules/RELEASE, usr/src/linux-headers-*,
	// usr/lib/linux-kbuild-*
	Root  string
	guest *guest.Kernel
}

// Kernel downloads the newest kernel of a system, "debian11" or "debian12", or takes it from the
// cache.
func Kernel(t testing.TB, system string) *HostKernel {
	t.Helper()
	return OlderKernel(t, system, 1)
}

// OlderKernel returns the nth newest kernel of a system; 2 is the one before the newest.
func OlderKernel(t testing.TB, system string, nth int) *HostKernel {
	t.Helper()
	name := fmt.Sprintf("%s-kernel-%s-%d", system, kernelRecipe, nth)
	dir := cached(t, name, func(dir string) {
		k := download(t, system, fmt.Sprintf("latest:%d", nth))
		root := filepath.Join(dir, "root")
		require.NoError(t, os.MkdirAll(root, 0o755))
		tool.Must(t, "debugfs", "-R", "rdump /usr "+root, k.Disk)
		text := require.Value(json.Marshal(k))(t)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "kernel.json"), text, 0o600))
	})
	made := &HostKernel{System: system, Root: filepath.Join(dir, "root")}
	text := require.Value(os.ReadFile(filepath.Join(dir, "kernel.json")))(t)
	require.NoError(t, json.Unmarshal(text, &made.guest))
	made.Release = made.guest.Release
	return made
}

// download gets a kernel as a rehearsal does, with the mirrors of this machine and a cache of its own.
func download(t testing.TB, system, spec string) *guest.Kernel {
	t.Helper()
	store := require.Value(fetch.OpenStore(filepath.Join(CacheDir(t), "packages")))(t)
	client := require.Value(registry.New(registry.Options{Store: store}))(t)
	defer client.Close()
	b := &images.Builder{
		Store: store, Fetch: &fetch.Client{Store: store}, Registry: client, XZ: compression.FindXZ(),
	}
	query := kernel.Query{
		System: source(t, system), Programs: source(t, "debian12"), Release: spec, Headers: true,
	}
	k, _, err := kernel.Get(t.Context(), b, query)
	require.NoError(t, err)
	return k
}

// source is a release of Debian with the mirrors of this machine.
func source(t testing.TB, id string) kernel.Source {
	t.Helper()
	project := require.Value(tool.Project())(t)
	base := require.Value(tool.Run(t.Context(), project, nil, "ci/base", id))(t)
	text := require.Value(os.ReadFile(filepath.Join(project, "matrix.yaml")))(t)
	m := require.Value(matrix.Parse("matrix.yaml", text))(t)
	i := slices.IndexFunc(m.Systems, func(s matrix.System) bool { return s.ID == id })
	d := require.Value(distros.Lookup(id))(t)
	return kernel.Source{
		Target:  matrix.Target{System: m.Systems[i], Distro: d, Arch: "amd64"},
		Options: recipe.Options{Base: strings.TrimSpace(base)},
	}
}
