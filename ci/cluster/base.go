package cluster

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/cluster/control"
	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// base is the guest's initial disk, and the files that start it.
type base struct {
	dir    string // root.ext4, initramfs, kubeconfig
	kernel *lab.HostKernel
}

// cacheDir returns the folder of disks and images: DRIVER_CLUSTER_DIR, or a folder in the user's
// cache.
func cacheDir(t testing.TB) string {
	t.Helper()
	return require.Value(tool.CacheDir("cluster", "DRIVER_CLUSTER_DIR"))(t)
}

// makeBase makes the guest's disk (guest/make) or finds it in the cache.
func makeBase(t testing.TB) base {
	t.Helper()
	kernel := lab.Kernel(t, "debian12")
	bin := control.Bin(t)
	root := require.Value(tool.Project())(t)
	guest := filepath.Join(root, "ci/cluster/guest")
	dir := tool.Cached(t, cacheDir(t), "base-", func(dir string) error {
		pki := t.TempDir()
		agent := filepath.Join(t.TempDir(), "agent")
		config := makePKI(t, pki)
		require.NoError(t, tool.Build(t.Context(), agent, "cmd/driver-guest", "GOARCH=amd64"))
		tool.Must(t, filepath.Join(root, "ci/cluster/tools/build"), "runtime")
		tool.Must(t, filepath.Join(guest, "make"), dir, kernel.Root, bin, pki, agent)
		return os.WriteFile(filepath.Join(dir, "kubeconfig"), config, 0o600)
	}, []string{kernel.Release, filepath.Base(bin)},
		guest, filepath.Join(root, "cmd/driver-guest"), filepath.Join(root, "images/rehearse/wire"))
	return base{kernel: kernel, dir: dir}
}

// makePKI makes the certificates that the guest's units name in a folder, and returns the
// administrator's kubeconfig, which names guestServer.
func makePKI(t testing.TB, dir string) []byte {
	t.Helper()
	pki, err := control.NewPKI(dir, "localhost", NodeName, "kubernetes", "kubernetes.default",
		"kubernetes.default.svc", "127.0.0.1", nodeIP, apiAddress)
	require.NoError(t, err)
	for _, who := range []struct {
		name, user string
		groups     []string
	}{
		{"admin", "admin", []string{"system:masters"}},
		{"controller-manager", "system:kube-controller-manager", nil},
		{"scheduler", "system:kube-scheduler", nil},
		{"kubelet", "system:node:" + NodeName, []string{"system:nodes"}},
	} {
		require.NoError(
			t,
			pki.Kubeconfig(pki.Path(who.name+".kubeconfig"), guestServer, who.user, who.groups...),
		)
	}
	return require.Value(os.ReadFile(pki.Path("admin.kubeconfig")))(t)
}
