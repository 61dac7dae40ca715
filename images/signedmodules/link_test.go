package signedmodules

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/kmod/kbuild"
)

const (
	release = "5.15.0-112-generic"
	bits    = "lib/modules/" + release + "/kernel/nvidia-535srv/bits"
)

// entries are files of packages.
func entries(t testing.TB, files map[string]string) []*rootfs.Entry {
	t.Helper()
	spool := require.Value(rootfs.NewSpool(t.TempDir()))(t)
	t.Cleanup(func() { _ = spool.Close() })
	tree := rootfs.New(spool, nil)
	for name, content := range files {
		require.NoError(t, tree.AddBytes(name, 0o644, []byte(content)))
	}
	return tree.All()
}

// TestLinkReally links by the calls of a script of Canonical's form with the real linker: the sums fit those of
// the same calls made by hand, and a changed object is found by its sum.
func TestLinkReally(t *testing.T) {
	t.Parallel()
	for _, program := range []string{linkerProgram, "gcc"} {
		_, err := exec.LookPath(program)
		if err != nil {
			t.Skipf("needs %s: %v", program, err)
		}
	}
	root := t.TempDir()
	dir := filepath.Join(root, bits)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "nvidia"), 0o755))
	compile := func(name, body string) {
		source := filepath.Join(t.TempDir(), "x.c")
		require.NoError(t, os.WriteFile(source, []byte(body), 0o600))
		tool.Must(t, "gcc", "-c", "-o", filepath.Join(dir, name), source)
	}
	compile("nvidia/nv.o", "int nv(void) { return 1; }")
	compile("nvidia.mod.o", `char version[] __attribute__((section(".modinfo"))) = "version=535";`)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "nvidia.mod"), []byte("nvidia/nv.o\n"), 0o600))
	script := `[ "$1" = "nocheck" ] && { check_only=:; shift; }
export ELF_PACKAGE_METADATA=''
  /usr/bin/ld.bfd -r -z noexecstack -o nvidia.o @nvidia.mod
/usr/bin/ld.bfd -r --build-id=sha1 -o nvidia.ko nvidia.o nvidia.mod.o; true
$check_only sha256sum -c SHA256SUMS || exit 1
$signed_only cat 'nvidia.ko' 'nvidia.ko.sig' >'../nvidia.ko'
`
	build := func(sums string) (*linkObjects, string) {
		objects := require.Value(findObjects(release, entries(t, map[string]string{
			bits + "/BUILD": script, bits + "/SHA256SUMS": sums, bits + "/nvidia.ko.sig": "signature",
			"lib/modules/" + release + "/kernel/nvidia-470/bits/nvidia.ko.sig": "another driver's",
		})))(t)
		out := t.TempDir()
		words := objects.command(out)
		words[2] = strings.Replace(words[2], "cd /", "cd "+root+"/", 1)
		tool.Must(t, words...)
		return objects, out
	}
	_, out := build(strings.Repeat("0", 64) + " *nvidia.ko\n")
	sum, _, err := kbuild.Digest(filepath.Join(out, "nvidia.ko"))
	require.NoError(t, err)
	sums := fmt.Sprintf("%s *nvidia.ko\n", sum)
	objects, out := build(sums)
	signed := t.TempDir()
	names := require.Value(objects.sign(t.Context(), out, signed))(t)
	assert.Equalf(t, "nvidia", strings.Join(names, " "), "names")
	made := require.Value(os.ReadFile(filepath.Join(out, "nvidia.ko")))(t)
	got := require.Value(os.ReadFile(filepath.Join(signed, "nvidia.ko")))(t)
	assert.Equalf(t, true, string(got) == string(made)+"signature", "the signature follows the module")
	compile("nvidia/nv.o", "int nv(void) { return 2; }")
	objects, out = build(sums)
	_, err = objects.sign(t.Context(), out, t.TempDir())
	assert.ErrorIs(t, err, ErrPackaged)
	assert.ErrorContains(t, err, sum, "its signature does not fit")
}

// FuzzObjects: whatever scripts and sums say, the command has only calls of the linker, in the folder of the
// objects, and no word that a shell would take apart.
func FuzzObjects(f *testing.F) {
	f.Add("/usr/bin/ld.bfd -r -o nvidia.ko nvidia.o nvidia.mod.o; true\n", strings.Repeat("0", 64)+" *nvidia.ko\n")
	f.Add("export ELF_PACKAGE_METADATA='{\"a\":1}'\n/usr/bin/ld.bfd -o a @b\n", "")
	f.Add("/usr/bin/ld.bfd -o ../a `id` $(id) > /etc/passwd\n", "x\n")
	f.Fuzz(func(t *testing.T, script, sums string) {
		objects, err := findObjects(release, entries(t, map[string]string{bits + "/BUILD": script, bits + "/SHA256SUMS": sums}))
		if err != nil {
			assert.Equalf(t, true, errors.Is(err, ErrPackaged), "%v", err)
			return
		}
		command := objects.command(output)
		lines := strings.Split(command[2], "\n")
		for i, line := range lines {
			isCall := strings.HasPrefix(line, linkerProgram+" ") && i > 1 && i < len(lines)-1
			assert.Equalf(t, true, isCall || i < 2 || i == len(lines)-1, "line %q", line)
			assert.Equalf(t, false, strings.ContainsAny(line, "`$;&|<>()'\"\\*?[]{}!#~\x00\r\t") || strings.Contains(line, ".."), "line %q", line)
		}
	})
}
