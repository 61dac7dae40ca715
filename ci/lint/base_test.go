package lint

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

// TestBaseInterrupted: a Ctrl-C while ci/base installs leaves dpkg interrupted, and then apt-get refuses every
// installation. The next run mends that. Its programs are fakes; the one of mmdebstrap is missing, until it is
// installed.
func TestBaseInterrupted(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	for _, name := range []string{"sh", "env", "id", "sort", "awk", "touch", "rm", "chmod"} {
		require.NoError(t, os.Symlink(require.Value(exec.LookPath(name))(t), filepath.Join(bin, name)))
	}
	fake := func(name, text string) {
		path := testfile.Write(t, filepath.Join(bin, name), "#!/bin/sh\ncd "+bin+"\n"+text)
		require.NoError(t, os.Chmod(path, 0o755))
	}
	fake("sudo", `exec "$@"`)
	fake("python3", "")
	fake("dpkg", `case $1 in --print-architecture) echo amd64;; --configure) rm interrupted;; esac`)
	fake("apt-get", `
[ "$1" = install ] || exit 0
if [ -e interrupted ]; then
  echo "E: dpkg was interrupted, you must manually run 'dpkg --configure -a' to correct the problem." >&2
  exit 100
fi
touch installed`)
	testfile.Write(t, filepath.Join(bin, "interrupted"), "")
	base := exec.Command(filepath.Join(root, "ci/base"), "debian12")
	base.Env = []string{"PATH=" + bin, "BASE_DIR=" + t.TempDir() + "/base"}
	out, err := base.CombinedOutput()
	assert.Equalf(t, true, err != nil, "%s", out)
	assert.Containsf(t, string(out), "dpkg --configure -a: a Ctrl-C", "it says what it does")
	assert.Containsf(t, string(out), "no Debian mirror", "it goes on: the fake of apt has no mirror")
	_, err = os.Stat(filepath.Join(bin, "installed"))
	require.NoError(t, err)
}
