package buildtree

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/ci/testfile"
)

// splitHost returns a host with headers in Debian's layout: three folders that lead to each other.
func splitHost(t *testing.T) string {
	t.Helper()
	return testfile.Tree(t, t.TempDir(), map[string]string{
		"usr/src/linux-headers-6.1.0-1-amd64/include/generated/utsrelease.h": `#define UTS_RELEASE "6.1.0-1-amd64"` + "\n",
		"usr/src/linux-headers-6.1.0-1-amd64/include/generated/autoconf.h":   "",
		"usr/src/linux-headers-6.1.0-1-amd64/include/config/auto.conf":       "CONFIG_CC_VERSION_TEXT=\"gcc-12 (Debian 12.2.0-14) 12.2.0\"\n",
		"usr/src/linux-headers-6.1.0-1-amd64/Module.symvers":                 "",
		"usr/src/linux-headers-6.1.0-1-amd64/Makefile":                       "include /usr/src/linux-headers-6.1.0-1-common/Makefile\n",
		"usr/src/linux-headers-6.1.0-1-common/Makefile":                      "",
		"usr/src/linux-headers-6.1.0-1-common/include/linux/module.h":        "",
		"usr/lib/linux-kbuild-6.1/scripts/mod/modpost":                       "ELF",
		"usr/lib/elsewhere": "not a header",
		"lib":               "-> usr/lib",
		"usr/src/linux-headers-6.1.0-1-common/scripts": "-> ../../lib/linux-kbuild-6.1/scripts",
		"usr/src/linux-headers-6.1.0-1-amd64/scripts":  "-> ../../lib/linux-kbuild-6.1/scripts",
		"usr/lib/modules/6.1.0-1-amd64/build":          "-> /usr/src/linux-headers-6.1.0-1-amd64",
		"usr/lib/modules/6.1.0-1-amd64/source":         "-> /usr/src/linux-headers-6.1.0-1-common",
	})
}

func TestCopyHeaders(t *testing.T) {
	t.Parallel()
	h := require.Value(Find("6.1.0-1-amd64", []Root{{Dir: splitHost(t), Name: "host"}}))(t)
	dir := filepath.Join(t.TempDir(), "headers")
	copied := require.Value(h.Copy(context.Background(), dir))(t)
	if copied.Release != h.Release || copied.Origin != "host" || copied.CompilerText != h.CompilerText ||
		copied.Build != filepath.Join(dir, "usr/src/linux-headers-6.1.0-1-amd64") || copied.Source != filepath.Join(dir, "usr/src/linux-headers-6.1.0-1-common") {
		t.Errorf("copied %+v", copied)
	}
	assert.Equalf(t, "ELF", string(require.Value(os.ReadFile(filepath.Join(copied.Build, "scripts/mod/modpost")))(t)), "modpost")
	assert.ErrorIsf(t, assert.Err(os.Stat(filepath.Join(dir, "usr/lib/elsewhere"))), os.ErrNotExist, "more was copied than the headers")
}

func TestCopyHeadersStops(t *testing.T) {
	t.Parallel()
	h := require.Value(Find("6.1.0-1-amd64", []Root{{Dir: splitHost(t), Name: "host"}}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	dir := filepath.Join(t.TempDir(), "headers")
	assert.ErrorIs(t, assert.Err(h.Copy(ctx, dir)), context.Canceled)
	assert.ErrorIsf(t, assert.Err(os.Stat(dir)), os.ErrNotExist, "something is left")
}
