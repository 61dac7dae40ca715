package nvredist

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
)

// The files in testdata hold parts of NVIDIA's manifests, word for word; what follows those parts in the
// original was not at hand, so nvidia_driver has no platform there.
func TestParseReal(t *testing.T) {
	t.Parallel()
	read := func(version string) *Manifest {
		return require.Value(Parse(require.Value(os.ReadFile("testdata/" + ManifestName(version)))(t)))(t)
	}
	m := read("550.163.01")
	assert.Equalf(t, "550.163.01 2025-04-17 ", m.Version+" "+m.Date+" "+m.CUDA, "version, date, CUDA")
	imex, ok := m.Component(IMEX)
	file, has := imex.File("amd64")
	want := File{"amd64", "imex/linux-x86_64/nvidia-imex-linux-x86_64-550.163.01-archive.tar.xz", "c0d5b8c6136a9caf80574ed0993cb50dbe686d5697c7bfd5c0e41bcc78a4c72a", 7303124}
	if !ok || !has || file != want || imex.Licence != "NVIDIA Proprietary" {
		t.Errorf("imex %+v", imex)
	}
	if fm, _ := m.Component(FabricManager); len(fm.Files) != 2 || fm.Files[1].Arch != "arm64" {
		t.Errorf("fabric manager %+v", fm)
	}
	if _, ok := imex.File("arm64"); ok {
		t.Error("an archive that the manifest does not have")
	}

	old := read("515.48.07") // neither release_label nor release_product nor license_path
	assert.Equalf(t, "515.48.07", old.Version, "version")
	if nscq, ok := old.Component(NSCQ); !ok || nscq.Files[0].Size != 334848 {
		t.Errorf("NSCQ %+v", nscq)
	}
	assert.Equalf(t, "13.5", read("620.70.06").CUDA, "CUDA")
}

const driverOnly = `{"nvidia_driver": {"version": "535.1.1", "linux-x86_64": {"relative_path": "d/x-archive.tar.xz", "sha256": "SUM", "size": "7"}}}`

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	good := strings.ReplaceAll(driverOnly, "SUM", strings.Repeat("a", 64))
	if m, err := Parse([]byte(good)); err != nil || m.Components[0].Files[0].Size != 7 {
		t.Fatalf("%+v, %v", m, err)
	}
	if _, err := Parse([]byte(strings.Replace(good, `"7"`, "7", 1))); err != nil {
		t.Errorf("a size that is a number: %v", err)
	}
	replace := func(from, to string) string { return strings.Replace(good, from, to, 1) }
	for text, want := range map[string]string{
		"":                                      "unexpected end",
		"[1]":                                   "cannot unmarshal",
		`{}`:                                    "it has no component nvidia_driver",
		good + "x":                              "invalid character",
		replace(`"size": "7"`, `"size": "-7"`):  "no size of an archive",
		replace(`"size": "7"`, `"size": "1e3"`): "no size of an archive",
		replace(`"size": "7"`, `"size": []`):    "cannot unmarshal",
		replace(`"size": "7"`, `"size": "99999999999999"`):                                          "no size of an archive",
		replace(strings.Repeat("a", 64), "abc"):                                                     "no sha256",
		replace(`"sha256"`, `"sha257"`):                                                             "no sha256",
		replace("d/x-archive", "../x-archive"):                                                      "no path of an archive",
		replace("d/x-archive", "/d/x-archive"):                                                      "no path of an archive",
		replace("d/x-archive", "d/../../x-archive"):                                                 "no path of an archive",
		replace("d/x-archive", "https://example.com/x-archive"):                                     "no path of an archive",
		replace("d/x-archive.tar.xz", "d/x.run"):                                                    "no path of an archive",
		replace(`"535.1.1"`, `"latest"`):                                                            "no version",
		replace(`"535.1.1"`, `"12.1"`):                                                              "no version of a driver",
		replace(`{"nvidia`, `{"release_label": "535.1.2", "nvidia`):                                 `release_label is "535.1.2", the version of nvidia_driver is 535.1.1`,
		replace(`{"nvidia`, `{"release_product": "cuda", "nvidia`):                                  "another product",
		replace(`{"nvidia`, `{"release_date": "soon", "nvidia`):                                     "release_date",
		replace(`{"relative_path": "d/x-archive.tar.xz",`, `{"cuda13.5": {}, "relative_path": "",`): "no path of an archive",
		strings.Repeat(" ", MaxManifest+1):                                                          "at most 1048576",
	} {
		_, err := Parse([]byte(text))
		assert.ErrorIsf(t, err, ErrManifest, "%.200s", text)
		assert.ErrorContains(t, err, want)
	}
}

// FuzzParse: a manifest that is accepted has archives that can go into a matrix.
func FuzzParse(f *testing.F) {
	for _, name := range require.Value(filepath.Glob("testdata/*.json"))(f) {
		f.Add(require.Value(os.ReadFile(name))(f))
	}
	f.Add([]byte(strings.ReplaceAll(driverOnly, "SUM", strings.Repeat("a", 64))))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := Parse(text)
		if err != nil {
			if !errors.Is(err, ErrManifest) {
				t.Fatalf("%v", err)
			}
			return
		}
		if !driverShape.MatchString(m.Version) {
			t.Fatalf("version %q", m.Version)
		}
		for _, c := range m.Components {
			for _, x := range c.Files {
				if strings.Contains(x.Path, "..") || !strings.HasSuffix(x.Path, "-archive.tar.xz") || !sumShape.MatchString(x.SHA256) || x.Size < 0 {
					t.Fatalf("%+v", x)
				}
			}
		}
	})
}
