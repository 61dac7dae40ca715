package runfile_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/runfile"
)

const manifestHead = "NVIDIA Accelerated Graphics Driver for Linux-x86_64\n440.44\n \nnvidia nvidia-uvm nvidia-modeset nvidia-drm \n \n \n./kernel/\n./kernel/precompiled/\n"

var debian = runfile.Layout{LibDir: "usr/lib/x86_64-linux-gnu", LibDir32: "usr/lib/i386-linux-gnu", FirmwareDir: "usr/share/nvidia-driver/firmware"}

// A whole installed manifest for each generation of the format.
func TestInstallGolden(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("testdata/*.manifest")
	if err != nil || len(names) < 4 {
		t.Fatalf("manifests: %v, %v", names, err)
	}
	types := make(map[string]bool)
	for _, name := range names {
		m := parseFile(t, name)
		for _, e := range m.Entries {
			types[e.Type] = true
		}
		files, err := m.Install(debian)
		if err != nil {
			t.Error(err)
			continue
		}
		goldentest.Compare(t, strings.TrimSuffix(name, ".manifest")+".golden", render(m, files))
	}
	// The installer declared TLS_SYMLINK, but no known manifest has it.
	if want := 68; len(types) < want {
		t.Errorf("the manifests of testdata show %d types; want at least %d", len(types), want)
	}
}

func parseFile(t *testing.T, name string) *runfile.Manifest {
	t.Helper()
	f := require.Value(os.Open(name))(t)
	defer f.Close()
	return require.Value(runfile.ParseManifest(filepath.Base(name), f))(t)
}

func render(m *runfile.Manifest, files []runfile.File) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s | %s | %s\n", m.Description, m.Version, strings.Join(m.Modules, ","))
	lines := map[int]runfile.Entry{}
	for _, e := range m.Entries {
		lines[e.Line] = e
	}
	for _, f := range files {
		from := "= " + f.Source
		if f.Link != "" {
			from = "-> " + f.Link
		}
		notes := ""
		if f.Rewrite != nil {
			notes += " template"
		}
		fmt.Fprintf(&b, "%s %s %s [%s %s]%s\n", f.Mode, f.Path, from, lines[f.Line].Type, lines[f.Line].Tag, notes)
	}
	return b.String()
}

func TestParseManifestRefuses(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 5000)
	for name, test := range map[string]struct {
		text, message string
		line          int
	}{
		"nothing":              {"", "within its 8 header lines", 0},
		"header alone":         {strings.Join(strings.Split(manifestHead, "\n")[:5], "\n"), "within its 8 header lines", 5},
		"no version":           {strings.Replace(manifestHead, "440.44", "latest", 1), "not a driver version", 2},
		"version climbs":       {strings.Replace(manifestHead, "440.44", "4/../../etc", 1), "not a driver version", 2},
		"odd module":           {strings.Replace(manifestHead, "nvidia-uvm", "nvidia;reboot", 1), "not a module name", 4},
		"unknown type":         {manifestHead + "x 0755 HOLOGRAM_LIB NATIVE\n", "unknown type", 9},
		"too new":              {strings.Replace(manifestHead, "440.44", "999.10", 1) + "x 0755 HOLOGRAM_LIB NATIVE\n", "a newer version of this program", 9},
		"too old":              {strings.Replace(manifestHead, "440.44", "340.108", 1) + "x 0755 TLS_OLD NATIVE\n", "driver 340.108 is too old", 9},
		"prefix alone":         {manifestHead + "x 0755 VGX_ NATIVE\n", "unknown type", 9},
		"two words":            {manifestHead + "x 0755\n", "2 words", 9},
		"mode not octal":       {manifestHead + "x 0798 CUDA_ICD\n", "not octal", 9},
		"mode too large":       {manifestHead + "x 10755 CUDA_ICD\n", "not octal", 9},
		"set-uid elsewhere":    {manifestHead + "x 04755 UTILITY_BINARY\n", "nvidia-modprobe", 9},
		"climbing file":        {manifestHead + "../x 0755 CUDA_ICD\n", "climbs", 9},
		"absolute file":        {manifestHead + "/etc/shadow 0755 CUDA_ICD\n", "absolute", 9},
		"no arch":              {manifestHead + "x 0755 CUDA_LIB / MODULE:y\n", "NATIVE", 9},
		"no path":              {manifestHead + "x 0755 CUDA_LIB NATIVE MODULE:y\n", "is not what follows its type", 9},
		"no target":            {manifestHead + "x 0000 CUDA_SYMLINK NATIVE / MODULE:y\n", "is not what follows its type", 9},
		"no depth":             {manifestHead + "x 0644 FIRMWARE firmware/ MODULE:y\n", "INHERIT_PATH_DEPTH", 9},
		"negative depth":       {manifestHead + "x 0644 FIRMWARE INHERIT_PATH_DEPTH:-1 MODULE:y\n", "INHERIT_PATH_DEPTH", 9},
		"huge depth":           {manifestHead + "x 0644 FIRMWARE INHERIT_PATH_DEPTH:200 MODULE:y\n", "INHERIT_PATH_DEPTH", 9},
		"too many words":       {manifestHead + "x 0755 CUDA_LIB NATIVE / y z MODULE:y\n", "/ y z", 9},
		"tag in the middle":    {manifestHead + "x 0755 CUDA_LIB NATIVE / MODULE:y z\n", "MODULE:y z", 9},
		"NUL":                  {manifestHead + "x\x00y 0755 CUDA_ICD\n", "unprintable", 9},
		"terminal escape":      {manifestHead + "x\x1b[2J 0755 CUDA_ICD\n", "unprintable", 9},
		"endless line":         {manifestHead + long + " 0755 CUDA_ICD\n", "4096", 9},
		"the second is broken": {manifestHead + "x 0755 CUDA_ICD\ny 0755 NOTHING\n", "unknown type", 10},
		"too many":             {manifestHead + strings.Repeat("x 0755 CUDA_ICD\n", 20001), "20000 entries", 20009},
	} {
		_, err := runfile.ParseManifest("the.manifest", strings.NewReader(test.text))
		if !errors.Is(err, runfile.ErrManifest) || !strings.Contains(err.Error(), test.message) || !strings.HasPrefix(err.Error(), fmt.Sprintf("the.manifest:%d: ", test.line)) {
			t.Errorf("%s: error %v; want line %d and %q", name, err, test.line, test.message)
		}
	}
	_, err := runfile.ParseManifest("m", strings.NewReader(manifestHead+"lib/x.so 0755 HOLOGRAM_LIB NATIVE\n"))
	if got, want := fmt.Sprint(err), `m:9: file "lib/x.so" of type "HOLOGRAM_LIB": unknown type`; !strings.HasPrefix(got, want) {
		t.Errorf("message %q; want it to begin with %q", got, want)
	}
}
