package elffile

import (
	"debug/elf"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

// TestLoaderCache: ldconfig reads it, in the loader's order.
func TestLoaderCache(t *testing.T) {
	t.Parallel()
	ldconfig, err := exec.LookPath("/sbin/ldconfig")
	if err != nil {
		t.Skip("this machine has no ldconfig")
	}
	libraries := map[string]string{}
	for _, name := range []string{"libcuda.so", "libcuda.so.1", "libx.so.9", "libx.so.10", "libx-2.so", "libxa.so"} {
		libraries[name] = "/usr/lib/x/" + name
	}
	file := filepath.Join(t.TempDir(), "cache")
	testfile.Write(t, file, string(LoaderCache(elf.EM_X86_64, libraries)))
	var order []string
	text := testfile.Read(t, file)
	assert.Same(t, libraries, ReadLoaderCache(elf.EM_X86_64, []byte("ld.so-1.7.0\x00"+text)))
	for n := range text { // cut off
		ReadLoaderCache(elf.EM_X86_64, []byte(text[:n]))
	}
	for line := range strings.Lines(string(require.Value(exec.CommandContext(t.Context(), ldconfig, "-p", "-C", file).CombinedOutput())(t))) {
		if name, path, ok := strings.Cut(strings.TrimSpace(line), " (libc6,x86-64) => "); ok {
			assert.Equal(t, libraries[name], path)
			order = append(order, name)
		}
	}
	assert.Equal(t, "libxa.so libx.so.10 libx.so.9 libx-2.so libcuda.so.1 libcuda.so", strings.Join(order, " "))
}
