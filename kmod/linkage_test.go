package kmod

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/kbuildtest"
	"github.com/driver-container/driver-container/ci/require"
)

// FuzzReadLinkage: any content gives a linkage or an error.
func FuzzReadLinkage(f *testing.F) {
	f.Add(kbuildtest.ModuleFile("vermagic=6.1\x00depends=nvidia\x00alias=x\x00softdep=pre: y\x00", []string{"a"}, []string{"c"}))
	f.Fuzz(func(t *testing.T, content []byte) {
		file := filepath.Join(t.TempDir(), "x.ko")
		require.NoError(t, os.WriteFile(file, content, 0o600))
		l, err := ReadLinkage(file)
		if err == nil && len(l.Depends)+len(l.Aliases)+len(l.Softdeps)+len(l.Exports) > len(content) {
			t.Errorf("%d bytes gave %+v", len(content), l)
		}
	})
}

// TestReadLinkage: what depmod reads of a module, and files that are none.
func TestReadLinkage(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "x.ko")
	whole := kbuildtest.ModuleFile("vermagic=6.1\x00depends=nvidia,i2c-core\x00alias=pci:v1\x00alias=x-*\x00softdep=pre: y\x00", []string{"a", "b"}, []string{"c"})
	require.NoError(t, os.WriteFile(file, whole, 0o600))
	l := require.Value(ReadLinkage(file))(t)
	assert.Equal(t, "nvidia i2c_core|pci:v1 x-*|pre: y|a b",
		strings.Join([]string{strings.Join(l.Depends, " "), strings.Join(l.Aliases, " "), strings.Join(l.Softdeps, " "), strings.Join(l.Exports, " ")}, "|"))
	for _, bad := range [][]byte{nil, []byte("text"), whole[:70], whole[:len(whole)-100]} {
		require.NoError(t, os.WriteFile(file, bad, 0o600))
		if _, err := ReadLinkage(file); !errors.Is(err, ErrFormat) {
			t.Errorf("%d bytes: %v", len(bad), err)
		}
	}
}
