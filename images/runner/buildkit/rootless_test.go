package buildkit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/runnertest"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/images/runner"
)

// ordinary is the user of a daemon without root: nobody, whom every Debian has.
const ordinary = 65534

// startRootless starts a buildkitd in RootlessKit, as an ordinary user and with the flags that
// deploy/examples gives it.
func startRootless(t *testing.T) *testDaemon {
	t.Helper()
	tool.Program(t, "rootlesskit", "rootlesskit")
	tool.Program(t, "newuidmap", "uidmap")
	program := require.Value(built())(t)
	dir, err := os.MkdirTemp("", "rootless-") //nolint:usetesting // the user must reach it, and t.TempDir's parents are root's
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	for _, name := range []string{"", "root", "run", "tmp"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
		require.NoError(t, os.Chown(filepath.Join(dir, name), ordinary, ordinary))
	}
	require.NoError(t, os.WriteFile(dir+"/ids", []byte("nobody:100000:65536\n"), 0o644))
	// The user may not be able to read the checkout.
	require.NoError(t, exec.CommandContext(t.Context(), "cp", program, dir+"/buildkitd").Run())
	// The files with the user's ranges of IDs are replaced for this process only.
	script := fmt.Sprintf(`set -e
for file in /etc/subuid /etc/subgid; do [ -e $file ] || touch $file; mount --bind %[1]s/ids $file; done
exec setpriv --reuid %[2]d --regid %[2]d --clear-groups env -i \
  "PATH=$PATH" HOME=%[1]s XDG_RUNTIME_DIR=%[1]s/run TMPDIR=%[1]s/tmp \
  BUILDKIT_STEP_LOG_MAX_SIZE=-1 BUILDKIT_STEP_LOG_MAX_SPEED=-1 \
  rootlesskit %[1]s/buildkitd --config /dev/null --root %[1]s/root --addr unix://%[1]s/s \
  --otel-socket-path %[1]s/run/otel --cdi-disabled --containerd-worker=false --oci-worker-no-process-sandbox`, dir, ordinary)
	return launch(t, dir, script)
}

// TestRealRootless: a daemon without root, as in the pod of deploy/examples, runs steps like every other,
// with one difference: the processes of a step are not in a namespace of their own, so a step that leaves a
// process behind does not end, and the children of a cancelled step go on.
func TestRealRootless(t *testing.T) {
	realTier(t)
	noLeaks(t)
	d := startRootless(t)
	runnertest.Conform(t, func(t *testing.T) runner.Runner { return connect(t, d.address) }, "background")
}
