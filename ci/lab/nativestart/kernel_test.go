package main

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/kmod"
)

// TestLoad takes modules in the order of their dependencies, and refuses all others as the kernel does.
func TestLoad(t *testing.T) {
	t.Parallel()
	const release = "6.1.0-56-amd64"
	dir := t.TempDir()
	k := require.Value(newKernel(filepath.Join(dir, "kernel"), release))(t)
	load := func(name, of string, modinfo ...string) error {
		path := filepath.Join(dir, name+".ko")
		require.NoError(t, os.WriteFile(path, imagetest.LinkedModule(name, "535.261.03", of, nil, nil, modinfo...), 0o600))
		link := filepath.Join(t.TempDir(), "3") // as /proc/PID/fd/3
		require.NoError(t, os.Symlink(path, link))
		return k.load(link)
	}
	assert.ErrorIs(t, load("nvidia-uvm", release, "depends=nvidia"), unix.ENOENT)
	assert.ErrorIs(t, load("nvidia", "6.1.0-55-amd64"), unix.ENOEXEC)
	require.NoError(t, load("nvidia", release))
	assert.ErrorIs(t, load("nvidia", release), unix.EEXIST)
	require.NoError(t, load("nvidia-uvm", release, "depends=nvidia"))
	for i, m := range require.Value(kmod.System{Proc: k.dir, Sys: k.dir}.Loaded())(t) {
		assert.Equal(t, []string{"nvidia_uvm", "nvidia"}[i], m.Name)
		assert.Equal(t, "535.261.03", m.Version)
	}
	assert.ErrorIs(t, k.do(call{number: unix.SYS_DELETE_MODULE}), unix.EPERM)
	assert.ErrorContains(t, k.refused(), "system call")
}
