package kmod

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/kmod"
)

// TestModules compares all modules of Debian 12's kernel, some 4,000.
func TestModules(t *testing.T) {
	tool.Real(t, "needs a kernel from Debian's mirror")
	k := lab.Kernel(t, "debian12")
	folder := filepath.Join(k.Root, "usr/lib/modules", k.Release)
	files := moduleFiles(t, folder)
	t.Logf("%s has %d modules", k.Release, len(files))
	t.Run("modinfo", func(t *testing.T) { modinfo(t, folder, files) })
	theirs := depmod(t, folder, k.Release)
	t.Run("depmod", func(t *testing.T) { indexes(t, folder, filepath.Join(theirs, "lib/modules", k.Release)) })
	t.Run("modprobe", func(t *testing.T) { modprobe(t, folder, theirs, k.Release, files) })
}

// moduleFiles returns the modules below a folder.
func moduleFiles(t *testing.T, folder string) (files []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.HasSuffix(path, ".ko") {
			files = append(files, strings.TrimPrefix(path, folder+"/"))
		}
		return err
	}))
	if len(files) < 1000 {
		t.Fatalf("%s has %d modules", folder, len(files))
	}
	return files
}

// modinfo requires the fields that modinfo prints.
func modinfo(t *testing.T, folder string, files []string) {
	text, err := tool.Run(t.Context(), folder, nil, append([]string{"modinfo", "-0"}, files...)...)
	require.NoError(t, err)
	for i, module := range strings.Split(text, "filename:       ")[1:] {
		want := kmod.Info{Params: map[string]string{}}
		single := map[string]*string{
			"name": &want.Name, "version": &want.Version, "vermagic": &want.Vermagic, "srcversion": &want.SrcVersion,
			"license": &want.License, "signer": &want.Signer, "sig_key": &want.SigKeyID, "sig_hashalgo": &want.SigHash,
		}
		for _, field := range strings.Split(module, "\x00")[1:] {
			parameter, isParameter := strings.CutPrefix(field, "parm:")
			if isParameter {
				name, _, _ := strings.Cut(strings.TrimSpace(parameter), ":")
				want.Params[name] = ""
				continue
			}
			key, value, _ := strings.Cut(field, "=")
			one := single[key]
			switch {
			case one != nil && *one == "":
				*one = value
			case key == "depends" && value != "":
				want.Depends = strings.Split(kmod.ModuleName(value), ",")
			case key == "firmware":
				want.Firmware = append(want.Firmware, value)
			case key == "sig_id":
				want.Signed = true
			}
		}
		got := require.Value(kmod.ReadInfo(filepath.Join(folder, files[i])))(t)
		for name := range got.Params {
			got.Params[name] = "" // a type, or a description; modinfo prints both
		}
		assert.Samef(t, want, got, "%s (-modinfo +ours)", files[i])
	}
}

// depmod writes the files of kmod's own depmod about the same modules below a folder that it returns.
func depmod(t *testing.T, folder, release string) (root string) {
	t.Helper()
	root = t.TempDir()
	below := filepath.Join(root, "lib/modules", release)
	require.NoError(t, os.MkdirAll(below, 0o755))
	require.NoError(t, os.Symlink(filepath.Join(folder, "kernel"), filepath.Join(below, "kernel")))
	for _, name := range []string{"modules.order", "modules.builtin", "modules.builtin.modinfo"} {
		content := require.Value(os.ReadFile(filepath.Join(folder, name)))(t)
		require.NoError(t, os.WriteFile(filepath.Join(below, name), content, 0o600))
	}
	tool.Must(t, "depmod", "-b", root, release)
	return root
}

// indexes compares the files of depmod. The order of what one module needs is free: modprobe compares ours.
func indexes(t *testing.T, ours, theirs string) {
	read := func(folder, name string) string {
		return string(require.Value(os.ReadFile(filepath.Join(folder, name)))(t))
	}
	for _, name := range []string{"modules.alias", "modules.alias.bin", "modules.softdep", "modules.builtin.bin"} {
		assert.Equalf(t, true, read(theirs, name) == read(ours, name), "%s is that of depmod", name)
	}
	assert.Samef(t, needs(read(theirs, "modules.dep")), needs(read(ours, "modules.dep")), "modules.dep (-depmod +ours)")
	// Namespaces are in the section of the symbols' names, and depmod leaves them out.
	have := map[string]bool{}
	for line := range strings.SplitSeq(read(ours, "modules.symbols"), "\n") {
		have[line] = true
	}
	for line := range strings.SplitSeq(read(theirs, "modules.symbols"), "\n") {
		if !have[line] {
			t.Errorf("modules.symbols lacks %q", line)
		}
	}
}

// needs returns what each module needs, sorted.
func needs(text string) map[string][]string {
	all := map[string][]string{}
	for line := range strings.Lines(text) {
		file, rest, _ := strings.Cut(line, ":")
		all[file] = strings.Fields(rest)
		slices.Sort(all[file])
	}
	return all
}

// modprobe requires that kmod's modprobe loads the same files by our indexes and by depmod's, each before those that
// need it. It asks for every tenth module.
func modprobe(t *testing.T, ours, theirs, release string, files []string) {
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "lib/modules"), 0o755))
	require.NoError(t, os.Symlink(ours, filepath.Join(root, "lib/modules", release)))
	required := needs(string(require.Value(os.ReadFile(filepath.Join(ours, "modules.dep")))(t)))
	for i := 0; i < len(files); i += 10 {
		name := strings.TrimSuffix(filepath.Base(files[i]), ".ko")
		got := loads(t, root, release, name)
		for at, file := range got {
			for _, need := range required[file] {
				if !slices.Contains(got[:at], need) {
					t.Errorf("%s: %s is loaded before %s", name, file, need)
				}
			}
		}
		want := loads(t, theirs, release, name)
		slices.Sort(want)
		slices.Sort(got)
		assert.Samef(t, want, got, "%s (-by depmod's indexes +by ours)", name)
	}
}

// loads returns the files that modprobe loads for a module, in their order.
func loads(t *testing.T, root, release, name string) (files []string) {
	t.Helper()
	text := tool.Must(t, "modprobe", "-d", root, "-S", release, "--show-depends", name)
	for line := range strings.Lines(text) {
		_, file, found := strings.Cut(line, "/lib/modules/"+release+"/")
		if found {
			files = append(files, strings.TrimSpace(file))
		}
	}
	return files
}
