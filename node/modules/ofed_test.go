package modules

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

func TestOFED(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	assert.Equalf(t, "", require.Value(OFED(root, "x86_64", "6.1.0-1-amd64"))(t), "without Mellanox's driver")
	symvers := filepath.Join(root, ofedContainer, "x86_64/6.1.0-1-amd64/Module.symvers")
	if err := errors.Join(os.MkdirAll(filepath.Dir(symvers), 0o755), os.MkdirAll(filepath.Join(root, "usr/src"), 0o755), os.WriteFile(symvers, []byte("0x1"), 0o600)); err != nil {
		t.Fatal(err)
	}
	first, err := OFED(root, "x86_64", "6.1.0-1-amd64")
	if err != nil || !strings.HasPrefix(first, "ofa_kernel-") {
		t.Fatalf("%q, %v", first, err)
	}
	assert.Equalf(t, "/"+ofedContainer, require.Value(os.Readlink(filepath.Join(root, ofedSource)))(t), "link")
	require.NoError(t, os.WriteFile(symvers, []byte("0x2"), 0o600))
	second, err := OFED(root, "x86_64", "6.1.0-1-amd64")
	if err != nil || second == first {
		t.Errorf("another driver has the same name: %q, %v", second, err)
	}
	// The link to the container's folder is for the root of the node, and leads nowhere here.
	for _, older := range []string{"default", "6.1.0-1-amd64"} {
		require.NoError(t, os.Rename(filepath.Dir(symvers), filepath.Join(root, ofedContainer, older)))
		symvers = filepath.Join(root, ofedContainer, older, "Module.symvers")
		assert.Equalf(t, second, require.Value(OFED(root, "x86_64", "6.1.0-1-amd64"))(t), "headers in %s", older)
	}
}
