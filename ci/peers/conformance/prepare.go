package conformance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/ocitest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// Prepare makes the consumer, or finds it in the cache, and returns its folder: a Debian 12 with
// nvidia-ctk, nvidia-cdi-hook, nvidia-container-runtime, nvcdi-mock and runc; also the root of the
// containers that are started in it. The folder belongs to the cache: do not write to it. The first
// call takes about half a minute with Go's build cache empty. Prepare fails the test if something
// is missing.
func Prepare(t testing.TB) string {
	t.Helper()
	tool.Program(t, "runc", "runc")
	repo := require.Value(tool.Project())(t)
	runc := require.Value(exec.LookPath("runc"))(t)
	info := require.Value(os.Stat(runc))(t)
	version := require.Value(
		tool.Run(t.Context(), repo, nil, "go", "env", "GOVERSION", "GOARCH"),
	)(t)
	texts := []string{"layout 3", version, runc, fmt.Sprint(info.Size(), info.ModTime().UnixNano())}
	fill := func(partial string) error { return build(t, repo, runc, partial) }
	clients := filepath.Join(repo, "ci/peers/conformance/clients")
	return tool.Cached(t, cacheDir(t), "", fill, texts, clients)
}

// runtimeConfig is the configuration of nvidia-container-runtime: NVIDIA's mode cdi with the
// specifications of the run, and runc.
const runtimeConfig = `[nvidia-container-runtime]
mode = "cdi"
runtimes = ["/usr/sbin/runc"]
[nvidia-container-runtime.modes.cdi]
default-kind = "nvidia.com/gpu"
spec-dirs = ["/run/cdi"]
`

// build makes the folder.
func build(t testing.TB, repo, runc, dir string) error {
	base := require.Value(tool.Run(t.Context(), repo, nil, "ci/base", "debian12"))(t)
	ocitest.Unpack(t, ocitest.Open(t, strings.TrimPrefix(strings.TrimSpace(base), "oci:")), dir)
	config := filepath.Join(dir, "etc/nvidia-container-runtime")
	// Use this machine's compiler: built on Debian 12, programs with cgo need no newer glibc than
	// Debian 12 has.
	clients := filepath.Join(repo, "ci/peers/conformance/clients")
	cgo := []string{"CGO_ENABLED=1", "CGO_CFLAGS=-O2 -Wno-deprecated-declarations"}
	for _, step := range [][]string{
		{"go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", dir + "/usr/bin/", "tool", "./nvcdi-mock"},
		{"cp", "--dereference", runc, dir + "/usr/sbin/runc"},
		{"mkdir", config},
	} {
		if _, err := tool.Run(t.Context(), clients, cgo, step...); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(config, "config.toml"), []byte(runtimeConfig), 0o644)
}

func cacheDir(t testing.TB) string {
	t.Helper()
	return require.Value(tool.CacheDir("conformance", ""))(t)
}
