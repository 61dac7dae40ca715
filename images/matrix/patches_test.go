package matrix

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/driverinfo"
)

const (
	openDiff   = "--- a/kernel-open/x.c\n+++ b/kernel-open/x.c\n@@ -1 +1 @@\n-a\n+b\n"
	closedDiff = "--- a/kernel/x.c\n+++ b/kernel/x.c\n@@ -1 +1 @@\n-a\n+b\n"
)

func sumOf(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

// patchMatrix returns a matrix with one driver. Its kernel block begins on line 12, its patches on line 18.
func patchMatrix(patches string) string {
	return `systems:
  - id: debian12
    base: x.example/debian:12
    archs: [amd64]
    kernels: [6.1]
drivers:
  - version: 535.261.03
    archives:
      amd64:
        url: https://x.example/x.run
        sha256: ` + strings.Repeat("1", 64) + `
    kernel:
      max: 6.9
      reason: r
      broken:
        - {from: 6.1.187, below: 6.2, flavours: [open], reason: four arguments}
    patches:
` + patches
}

// entry returns a patch of patchMatrix; rest are further keys.
func entry(file, text, kernels, rest string) string {
	return fmt.Sprintf("      - file: %s\n        sha256: %s\n        kernels: %s\n        licence: MIT\n        reason: r\n        origin: o\n%s", file, sumOf(text), kernels, rest)
}

const (
	onlyOpen = "        flavours: [open]\n"
	range61  = "[{from: 6.1.187, below: 6.2}]"
)

func readPatches(name string) (string, error) {
	switch {
	case strings.HasSuffix(name, "closed.patch"):
		return closedDiff, nil
	case strings.HasSuffix(name, "both.patch"):
		return openDiff + closedDiff, nil
	case strings.HasSuffix(name, "crlf.patch"):
		return strings.ReplaceAll(openDiff, "\n", "\r\n"), nil
	case strings.HasSuffix(name, "gone.patch"):
		return "", fs.ErrNotExist
	}
	return openDiff, nil
}

// TestPatchesLift: what a patch mends is no longer a limit, and --no-patches has the file's limits.
func TestPatchesLift(t *testing.T) {
	t.Parallel()
	both := strings.ReplaceAll(openDiff, "x.c", "y.c") + closedDiff // not the lines of the other
	text := patchMatrix(entry("p/open.patch", openDiff, range61, onlyOpen) +
		entry("p/both.patch", both, "[{from: 6.10, below: 6.13}]", "        sources: [archive]\n"))
	m, err := ParseWithFiles("m.yaml", []byte(text), Files{Patch: func(name string) (string, error) {
		if strings.HasSuffix(name, "both.patch") {
			return both, nil
		}
		return readPatches(name)
	}})
	require.NoError(t, err)
	d := m.Drivers[0]
	assert.Same(t, driverinfo.KernelRule{Max: "6.12", Reason: "r; above 6.9 with the patch both"}, d.Kernel)
	assert.Same(t, []string{Proprietary, Open}, d.Patches[1].Flavours)
	assert.Same(t, []string{SourceArchive}, d.Patches[0].Sources)
	assert.Equal(t, openDiff, d.Patches[0].Text)
	s := Selection{Systems: []string{"debian12"}, Drivers: []string{"535.261.03"}, NoPatches: true}
	plain := require.Value(m.Select(s))(t)[0].Driver
	assert.Equal(t, "6.9", plain.Kernel.Max)
	assert.Equal(t, 1, len(plain.Kernel.Broken))
	assert.Equal(t, 0, len(plain.Patches))
}

func TestPatchMistakes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ patches, want string }{
		"nothing breaks":       {entry("open.patch", openDiff, "[{from: 5.10, below: 5.11}]", onlyOpen), "m.yaml:20:19: patch open is for kernels from 5.10 on, below 5.11, and nothing says that the driver does not work on them: its limits are on line 13"},
		"other flavour breaks": {entry("closed.patch", closedDiff, range61, "        flavours: [proprietary]\n"), "nothing says"},
		"gap":                  {entry("both.patch", openDiff+closedDiff, "[{from: 6.12, below: 6.13}]", ""), "m.yaml:20:19: patch both for kernels from 6.12 on, below 6.13: it begins at 6.12 and the limit max is 6.9"},
		"max, some flavours":   {entry("open.patch", openDiff, "[{from: 6.10, below: 6.13}]", onlyOpen), "max (6.9) holds for all flavours"},
		"overlap": {entry("open.patch", openDiff, range61, onlyOpen) + entry("q/again.patch", openDiff, range61, onlyOpen),
			"m.yaml:25:9: two patches overlap, this one and that on line 18: kernel-open/x.c: hunk 1 of patch open and hunk 1 of patch again both have its line 1"},
		"name twice":      {entry("open.patch", openDiff, range61, onlyOpen) + entry("q/open.patch", openDiff, range61, onlyOpen), `m.yaml:25:9: patch "open" appears twice: first on line 18`},
		"wrong sum":       {entry("open.patch", "x", range61, onlyOpen), "m.yaml:19:17: patch \"open.patch\" has sha256 " + sumOf(openDiff)},
		"not there":       {entry("gone.patch", openDiff, range61, onlyOpen), `m.yaml:18:9: patch "gone.patch" cannot be read: file does not exist`},
		"no flavours":     {entry("open.patch", openDiff, range61, ""), "for the proprietary modules and changes no file of kernel/: say its flavours"},
		"flavours' files": {entry("open.patch", openDiff, range61, "        flavours: [proprietary]\n"), `is not below kernel/`},
		"CRLF":            {entry("crlf.patch", strings.ReplaceAll(openDiff, "\n", "\r\n"), range61, onlyOpen), "line 1 ends in CR LF"},
		"escape":          {entry("../open.patch", openDiff, range61, onlyOpen), `file "../open.patch" is no path beside the matrix`},
		"backslash":       {entry(`a\open.patch`, openDiff, range61, onlyOpen), "is no path beside the matrix"},
		"ending":          {entry("open.sh", openDiff, range61, onlyOpen), "must have a path that ends in .patch or .diff"},
		"name":            {entry("Open.patch", openDiff, range61, onlyOpen), "small letters"},
		"packages":        {entry("open.patch", openDiff, range61, onlyOpen+"        sources: [packages]\n"), "which driver 535.261.03 does not have"},
		"two places":      {entry("open.patch", openDiff, range61, onlyOpen+"        url: https://x.example/open.patch\n"), "needs either file"},
		"no origin":       {strings.Replace(entry("open.patch", openDiff, range61, onlyOpen), "        origin: o\n", "", 1), "a patch has no key origin"},
		"empty range":     {entry("open.patch", openDiff, "[{from: 6.2, below: 6.1}]", onlyOpen), "begins at 6.2, which is not below 6.1"},
		"many":            {strings.Repeat("      - {}\n", maxPatches+1), "has no key sha256"},
	} {
		_, err := ParseWithFiles("m.yaml", []byte(patchMatrix(c.patches)), Files{Patch: readPatches})
		var mistakes Errors
		if !errors.As(err, &mistakes) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\n%v\nwant %s", name, err, c.want)
		}
	}
}

// TestCarriedPatches: the files that the project's matrix names are there, with their checksums, and fit to
// its rules.
func TestCarriedPatches(t *testing.T) {
	t.Parallel()
	m, err := ParseWithFiles("matrix.yaml", require.Value(os.ReadFile("../../matrix.yaml"))(t), Files{Patch: func(name string) (string, error) {
		text, err := os.ReadFile("../../" + name)
		return string(text), err
	}})
	require.NoError(t, err)
	found := 0
	for _, d := range m.Drivers {
		for _, p := range d.Patches {
			found++
			if !strings.HasPrefix(p.File, "patches/"+d.Version+"/") || p.Text == "" {
				t.Errorf("driver %s: patch %s", d.Version, p.File)
			}
		}
	}
	if files := require.Value(fs.Glob(os.DirFS("../.."), "patches/*/*"))(t); found != len(files) {
		t.Errorf("the matrix names %d patches, of %d that there are", found, len(files))
	}
}
