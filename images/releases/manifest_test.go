package releases

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/matrix"
)

// The files in testdata hold parts of NVIDIA's manifests, word for word; what follows those parts in the
// original was not at hand, so nvidia_driver has no platform there.
func TestManifestReal(t *testing.T) {
	t.Parallel()
	read := func(version string) (Release, string) {
		r, err := parseManifest(require.Value(os.ReadFile("testdata/redistrib_" + version + ".json"))(t))
		require.NoError(t, err)
		return r, r.CUDA
	}
	r, cuda := read("550.163.01")
	assert.Equalf(t, "550.163.01 2025-04-17 ", r.Version+" "+r.Date+" "+cuda, "version, date, CUDA")
	want := Archive{
		"imex", "550.163.01", "amd64", "imex/linux-x86_64/nvidia-imex-linux-x86_64-550.163.01-archive.tar.xz",
		"c0d5b8c6136a9caf80574ed0993cb50dbe686d5697c7bfd5c0e41bcc78a4c72a", 7303124, "",
	}
	got, _ := r.Archive("imex", "amd64")
	assert.Equal(t, want, got)
	_, ok := r.Archive("imex", "arm64")
	assert.Equalf(t, false, ok, "an archive that the manifest does not have")
	_, ok = r.Archive("fabricmanager", "arm64")
	assert.Equalf(t, true, ok, "the fabric manager for arm64")
	r, _ = read("515.48.07") // neither release_label nor release_product nor license_path
	got, _ = r.Archive("libnvidia_nscq", "amd64")
	assert.Equalf(t, "515.48.07 334848", fmt.Sprint(r.Version, " ", got.Size), "version, size of NSCQ")
	_, cuda = read("620.70.06")
	assert.Equalf(t, "13.5", cuda, "CUDA")
}

const driverOnly = `{"nvidia_driver": {"version": "535.1.1", "linux-x86_64": {"relative_path": "d/x-archive.tar.xz", "sha256": "SUM", "size": "7"}}}`

func TestManifestRefuses(t *testing.T) {
	t.Parallel()
	good := strings.ReplaceAll(driverOnly, "SUM", strings.Repeat("a", 64))
	if r, err := parseManifest([]byte(good)); err != nil || r.Archives[0].Size != 7 {
		t.Fatalf("%+v, %v", r, err)
	}
	if _, err := parseManifest([]byte(strings.Replace(good, `"7"`, "7", 1))); err != nil {
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
	} {
		_, err := parseManifest([]byte(text))
		assert.ErrorIsf(t, err, errManifest, "%.200s", text)
		assert.ErrorContains(t, err, want)
	}
}

// TestReadLimits: no more of a list or a manifest is read than its bound.
func TestReadLimits(t *testing.T) {
	t.Parallel()
	var limits []int64
	s := Source{Address: "x", Read: func(_ context.Context, _ string, limit int64) ([]byte, error) {
		limits = append(limits, limit)
		return nil, errManifest
	}}
	_, _, err := Load(t.Context(), s)
	assert.ErrorIs(t, err, errManifest)
	_, _, err = Builtin().ReadManifest(t.Context(), s, "")
	assert.ErrorIs(t, err, errManifest)
	assert.Same(t, []int64{maxList, maxManifest}, limits)
}

// FuzzManifest: a manifest that is accepted has archives that can go into a matrix.
func FuzzManifest(f *testing.F) {
	for _, name := range require.Value(filepath.Glob("testdata/*.json"))(f) {
		f.Add(require.Value(os.ReadFile(name))(f))
	}
	f.Add([]byte(strings.ReplaceAll(driverOnly, "SUM", strings.Repeat("a", 64))))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := parseManifest(text)
		if err != nil {
			if !errors.Is(err, errManifest) {
				t.Fatalf("%v", err)
			}
			return
		}
		for _, a := range r.Archives {
			if strings.Contains(a.URL, "..") || !strings.HasSuffix(a.URL, "-archive.tar.xz") || !matrix.HasForm("digest", a.SHA256) || a.Size < 0 {
				t.Fatalf("%s: %+v", r.Version, a)
			}
		}
	})
}
