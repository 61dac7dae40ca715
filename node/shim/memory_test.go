package shim

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// Pages that the file has leave the memory of the process and come back; pages that were changed in memory
// stay, also where the mapping is not writable any more.
func TestFreeMemory(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(name, []byte(strings.Repeat("a", os.Getpagesize())), 0o600))
	file := require.Value(os.Open(name))(t)
	defer file.Close()
	mapped := func(rights int) []byte {
		data := require.Value(unix.Mmap(int(file.Fd()), 0, os.Getpagesize(), rights, unix.MAP_PRIVATE))(t)
		t.Cleanup(func() { _ = unix.Munmap(data) })
		return data
	}
	clean, changed, writable := mapped(unix.PROT_READ), mapped(unix.PROT_READ|unix.PROT_WRITE), mapped(unix.PROT_READ|unix.PROT_WRITE)
	changed[0], writable[0] = 'b', 'c'
	require.NoError(t, unix.Mprotect(changed, unix.PROT_READ))
	assert.Equal(t, "a b c", fmt.Sprintf("%c %c %c", clean[0], changed[0], writable[0]))
	if resident(t, clean) == "0" {
		t.Fatal("the page that was read is not resident")
	}
	FreeMemory()
	assert.Equal(t, "0", resident(t, clean))
	assert.Equal(t, "a b c", fmt.Sprintf("%c %c %c", clean[0], changed[0], writable[0]))
	dropFilePages("/nonexistent")
}

// resident returns how many KB of a mapping are in the memory of this process.
func resident(t *testing.T, mapping []byte) string {
	t.Helper()
	table := string(require.Value(os.ReadFile("/proc/self/smaps"))(t))
	_, lines, _ := strings.Cut("\n"+table, fmt.Sprintf("\n%x-", uintptr(unsafe.Pointer(&mapping[0]))))
	_, rest, found := strings.Cut(lines, "\nRss:")
	if !found {
		t.Fatalf("no mapping at %p in\n%s", mapping, table)
	}
	return strings.Fields(rest)[0]
}
