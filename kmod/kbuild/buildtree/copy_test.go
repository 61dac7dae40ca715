package buildtree

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

func TestCopyHeaders(t *testing.T) {
	t.Parallel()
	host := t.TempDir()
	debianTree(t, host) // three folders that lead to each other
	testfile.Write(t, host+"/usr/lib/elsewhere", "not a header")
	h := require.Value(Find(release, []Root{{Dir: host, Name: "host"}}))(t)
	dir := filepath.Join(t.TempDir(), "headers")
	copied := require.Value(h.Copy(context.Background(), dir))(t)
	if copied.Release != h.Release || copied.Origin != "host" || copied.CompilerText != h.CompilerText ||
		copied.Build != filepath.Join(dir, "usr/src/linux-headers-"+release) || copied.Source != filepath.Join(dir, "usr/src/linux-headers-6.1.0-56-common") {
		t.Errorf("copied %+v", copied)
	}
	assert.Equalf(t, "#!", string(require.Value(os.ReadFile(filepath.Join(copied.Build, "scripts/mod/modpost")))(t)), "modpost")
	assert.ErrorIsf(t, assert.Err(os.Stat(filepath.Join(dir, "usr/lib/elsewhere"))), os.ErrNotExist, "more was copied than the headers")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	dir = filepath.Join(t.TempDir(), "stopped")
	assert.ErrorIs(t, assert.Err(h.Copy(ctx, dir)), context.Canceled)
	assert.ErrorIsf(t, assert.Err(os.Stat(dir)), os.ErrNotExist, "something is left")
}
