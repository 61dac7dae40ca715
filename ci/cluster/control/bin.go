package control

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/gate"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// buildLimit is five times the duration of building everything on two idle cores.
const buildLimit = 35 * time.Minute

// Gate skips a test unless DRIVER_E2E=1 asks for the real tier.
func Gate(t testing.TB) {
	t.Helper()
	gate.Real(t, "tests with a real Kubernetes build its programs from source, which takes minutes")
}

// Bin returns the folder with etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubelet,
// kubectl, helm and kwok. It builds programs that are missing or have another version, which takes minutes
// and may download Go modules. Without DRIVER_E2E=1 the test is skipped.
func Bin(t testing.TB) string {
	t.Helper()
	Gate(t)
	return require.Value(bin())(t)
}

var bin = sync.OnceValues(func() (string, error) {
	root, err := tool.Root()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), buildLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(root, "ci/cluster/tools/build"))
	cmd.WaitDelay = 10 * time.Second
	var stderr tail
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("build Kubernetes' programs with ci/cluster/tools/build: %w; it said:\n%s", err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
})
