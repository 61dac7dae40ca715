package kernelmodules

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/kmod"
)

const release = "6.1.0-56-amd64"

// driver are modules that need each other as those of a driver do.
var driver = []struct {
	file           string
	exports, needs []string
	modinfo        []string
}{
	{"nvidia.ko", []string{"nvidia_get_rm_ops", "nvidia_p2p_get_pages", "nvidia_p2p_get_pages_persistent", "nvUvmInterfaceSessionCreate"}, nil,
		[]string{"depends=drm,i2c-core", "alias=char-major-195-*", "alias=pci:v000010DEd*sv*sd*bc03sc00i00*", "softdep=pre: ipmi-msghandler", "alias=x[a-c]-y"}},
	{"nvidia-modeset.ko", []string{"nvKmsKapiGetFunctionsTable"}, []string{"nvidia_get_rm_ops"}, []string{"depends=nvidia,video"}},
	{"nvidia-drm.ko", nil, []string{"nvKmsKapiGetFunctionsTable", "drm_dev_register"},
		[]string{"depends=drm,nvidia-modeset", "alias=pci:v000010DEd*sv*sd*bc03sc00i00*"}},
	{"nvidia-uvm.ko", nil, []string{"nvUvmInterfaceSessionCreate"}, []string{"depends=nvidia"}},
	{"gdrdrv.ko", nil, []string{"nvidia_p2p_get_pages"}, []string{"depends=nvidia"}},
	{"nvidia-fs.ko", nil, nil, []string{"depends="}},
}

// folder writes the modules to a folder as KMM has them, below the one that it returns, with our files or
// without them.
func folder(t *testing.T, ours bool) (root, dir string) {
	t.Helper()
	root = filepath.Join(t.TempDir(), "opt")
	dir = filepath.Join(root, "lib/modules", release)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	var modules []Module
	for _, m := range driver {
		name := kmod.ModuleName(strings.TrimSuffix(m.file, ".ko"))
		file := filepath.Join(dir, m.file)
		require.NoError(t, os.WriteFile(file, imagetest.LinkedModule(name, "535.261.03", release, m.exports, m.needs, m.modinfo...), 0o600))
		modules = append(modules, Module{m.file, name, require.Value(kmod.ReadLinkage(file))(t)})
	}
	slices.SortFunc(modules, func(a, b Module) int { return strings.Compare(a.File, b.File) })
	if ours {
		for name, content := range require.Value(Depmod(modules, nil))(t) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
		}
	}
	return root, dir
}

func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("needs kmod's programs: %v", err)
		}
	}
}

// TestDepmod: kmod's own depmod writes the same bytes. It writes the text of symbols in the order of a hash
// table, and the indexes of built-in modules empty, because it does not know the kernel.
func TestDepmod(t *testing.T) {
	t.Parallel()
	needs(t, "depmod")
	_, ours := folder(t, true)
	root, theirs := folder(t, false)
	order := []string{} // without the file depmod takes the modules as they lie in the folder
	for _, m := range driver {
		order = append(order, m.file)
	}
	slices.Sort(order)
	require.NoError(t, os.WriteFile(filepath.Join(theirs, "modules.order"), []byte(strings.Join(order, "\n")+"\n"), 0o600))
	tool.Must(t, "depmod", "-b", root, release)
	require.NoError(t, os.Remove(filepath.Join(theirs, "modules.order")))
	var names []string
	for _, d := range require.Value(os.ReadDir(theirs))(t) {
		names = append(names, d.Name())
		want, have := string(require.Value(os.ReadFile(filepath.Join(theirs, d.Name())))(t)), string(require.Value(os.ReadFile(filepath.Join(ours, d.Name())))(t))
		switch {
		case strings.HasPrefix(d.Name(), "modules.builtin"):
			assert.Equalf(t, "", want, "%s", d.Name())
			assert.Equalf(t, indexMagic, int(binary.BigEndian.Uint32([]byte(have))), "%s", d.Name())
		case d.Name() == "modules.symbols":
			assert.Equalf(t, sortedLines(want), sortedLines(have), "%s", d.Name())
		default:
			assert.Equalf(t, want, have, "%s", d.Name())
		}
	}
	var written []string
	for _, d := range require.Value(os.ReadDir(ours))(t) {
		written = append(written, d.Name())
	}
	assert.Equal(t, strings.Join(names, " "), strings.Join(written, " "))
}

func sortedLines(text string) string {
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// TestModprobe: kmod's modprobe finds the modules by our files, with those that they need before them.
func TestModprobe(t *testing.T) {
	t.Parallel()
	needs(t, "modprobe")
	root, dir := folder(t, true)
	for name, want := range map[string][]string{
		"nvidia-uvm": {"nvidia.ko", "nvidia-uvm.ko"}, "nvidia_drm": {"nvidia.ko", "nvidia-modeset.ko", "nvidia-drm.ko"}, "nvidia": {"nvidia.ko"},
		"gdrdrv": {"nvidia.ko", "gdrdrv.ko"}, "nvidia-fs": {"nvidia-fs.ko"}, "char-major-195-0": {"nvidia.ko"}, "xb-y": {"nvidia.ko"},
		"symbol:nvKmsKapiGetFunctionsTable": {"nvidia.ko", "nvidia-modeset.ko"},
	} {
		var files []string
		for line := range strings.Lines(tool.Must(t, "modprobe", "-d", root, "-S", release, "--show-depends", name)) {
			files = append(files, strings.TrimPrefix(strings.Fields(line)[1], dir+"/"))
		}
		assert.Equalf(t, strings.Join(want, " "), strings.Join(files, " "), "%s", name)
	}
	_, err := tool.Run(t.Context(), "", nil, "modprobe", "-d", root, "-S", release, "--show-depends", "nvidia-peermem")
	assert.ErrorContains(t, err, "not found in directory")
}

// TestDependencies: modules that need each other are refused, and one that two others need comes last.
func TestDependencies(t *testing.T) {
	t.Parallel()
	needing := func(name string, needs ...string) Module {
		return Module{name + ".ko", name, kmod.Linkage{Depends: needs}}
	}
	diamond := []Module{needing("a", "c", "b"), needing("b", "d"), needing("c", "b"), needing("d")}
	assert.Equal(t, "a.ko c.ko b.ko d.ko", strings.Join(require.Value(ByName(diamond).Needs("a"))(t), " "))
	_, err := Depmod([]Module{needing("a", "b"), needing("b", "a")}, nil)
	assert.ErrorContains(t, err, "need each other")
	_, err = Depmod([]Module{{"a.ko", "a", kmod.Linkage{Aliases: []string{"pci:\xff"}}}}, nil)
	assert.ErrorIs(t, err, errIndex)
}
