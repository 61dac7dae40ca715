package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/lab/wire"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

func TestMountPoint(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"var", "run", "usr/lib"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	for link, target := range map[string]string{"var/run": "/run", "lib": "usr/lib", "up": "../../../run", "loop": "loop"} {
		require.NoError(t, os.Symlink(target, filepath.Join(root, link)))
	}
	for guest, want := range map[string]string{
		"/var/run/nvidia": "/run/nvidia", "/lib/modules/": "/usr/lib/modules", "/up/x/../y": "/run/y", "/../../new/folder": "/new/folder", "/": "",
	} {
		got, err := mountPoint(root, wire.Bind{Guest: guest})
		if st, statErr := os.Lstat(got); err != nil || got != root+want || statErr != nil || !st.IsDir() {
			t.Errorf("%s: %s, %v, %v; want %s", guest, got, err, statErr, root+want)
		}
	}
	file, err := mountPoint(root, wire.Bind{Guest: "/var/run/a/file", File: true})
	if st, statErr := os.Lstat(file); err != nil || file != root+"/run/a/file" || statErr != nil || !st.Mode().IsRegular() {
		t.Errorf("a file: %s, %v, %v", file, err, statErr)
	}
	if got, err := mountPoint(root, wire.Bind{Guest: "/loop/x"}); err == nil {
		t.Errorf("a loop: %s", got)
	}
}
