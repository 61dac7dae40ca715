package releases

import (
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/matrix"
)

// TestCUDATable: each line is complete, versions and drivers rise, and the floor of a release is never above its
// own driver.
func TestCUDATable(t *testing.T) {
	t.Parallel()
	all := CUDAReleases()
	for n, r := range all {
		assert.Equalf(t, true, matrix.HasForm("cuda", r.Version), "%q", r.Version)
		if n > 0 {
			before := all[n-1]
			assert.Equalf(t, true, matrix.CompareVersions(before.Version, r.Version) < 0, "%s after %s", r.Version, before.Version)
			assert.Equalf(t, true, matrix.CompareVersions(before.Native, r.Native) < 0, "driver %s after %s", r.Native, before.Native)
			assert.Equalf(t, true, matrix.Major(before.Version) != matrix.Major(r.Version) || matrix.Major(r.Version) < firstMinor || matrix.CompareVersions(r.Version, r.Version[:3]+"2") < 0 || before.Floor == r.Floor,
				"%s: floor %s, that of %s is %s", r.Version, r.Floor, before.Version, before.Floor)
		}
		assert.Equalf(t, true, matrix.CompareVersions(r.Floor, r.Native) <= 0, "%s: floor %s above %s", r.Version, r.Floor, r.Native)
		assert.Equalf(t, true, matrix.Major(r.Version) >= firstMinor || r.Floor == r.Native, "%s: no minor-version compatibility before %d", r.Version, firstMinor)
		assert.Equalf(t, true, rows("cuda.tsv")[n][3] != "", "%s has no source", r.Version)
		assert.Equalf(t, r.Version, CUDAOf(r.Native, ""), "the driver that came with it")
	}
}

// TestCUDAOfBranches: the table of branches names the same versions.
func TestCUDAOfBranches(t *testing.T) {
	t.Parallel()
	for _, b := range Builtin().Branches {
		if n := len(b.Releases); b.CUDA != "" && n > 0 {
			newest := b.Releases[n-1].Version
			assert.Equalf(t, b.CUDA, CUDAOf(newest, ""), "%s, newest release %s", b.Name, newest)
		}
	}
}

func TestRunBy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		driver, stated, want string
		support              CUDASupport
		why                  string
	}{
		{"570.211.01", "", "12.8", CUDANative, ""},
		{"570.86.10", "", "12.8", CUDANative, ""},
		{"580.178.04", "", "12.8", CUDANative, ""},
		{"620.70.06", "", "9.0", CUDANative, ""},
		{"550.163.01", "", "12.8", CUDAMinor, "driver 550.163.01 has CUDA 12.4: programs of 12.8 run by minor-version compatibility, but it compiles no PTX of 12.8"},
		{"525.60.13", "", "12.9", CUDAMinor, ""},
		{"525.60.11", "", "12.9", CUDANone, "CUDA 12.9 needs 525.60.13 or newer, or the package cuda-compat-12-9 in the application's image, on data center GPUs only"},
		{"535.309.01", "", "13.0", CUDANone, "needs 580.65.06"},
		{"470.256.02", "", "11.8", CUDAMinor, ""},
		{"450.51.06", "", "11.8", CUDANone, "needs 450.80.02"},
		{"450.51.06", "", "11.0", CUDANative, ""},
		{"440.118.02", "", "10.2", CUDANative, ""},
		{"440.31", "", "10.2", CUDANone, "has CUDA 10.1; CUDA 10.2 needs 440.33 or newer, or the package cuda-compat-10-2"},
		{"418.226.00", "", "10.2", CUDANone, "needs 440.33"},
		{"390.157", "", "9.2", CUDANone, "CUDA 9.2 needs 396.26 or newer"},
		{"340.108", "", "7.0", CUDANone, "is older than any CUDA that is known"},
		{"615.10.01", "13.4", "13.4", CUDANative, ""},
		{"615.10.01", "", "13.5", CUDAMinor, "has CUDA 13.3"},
		{"610.57.04", "", "13.4", CUDAMinor, "has CUDA 13.3"},
	} {
		r := require.Value(RequireCUDA(&matrix.Matrix{Drivers: []matrix.Driver{{CUDA: "13.4"}}}, c.want))(t)
		got := r.RunBy(c.driver, c.stated)
		assert.Equalf(t, c.support, got.Support, "%s on %s: %s", c.want, c.driver, got.Why)
		assert.Containsf(t, got.Why, c.why, "%s on %s", c.want, c.driver)
		assert.Equalf(t, got.Support == CUDANative, got.Why == "", "%s on %s: %s", c.want, c.driver, got.Why)
	}
}

// TestRequireCUDARefuses: what is no release of CUDA, or none that is known.
func TestRequireCUDARefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"12":                    "is no release of CUDA, such as 12.8",
		"12.8.1":                "give its first two numbers, 12.8",
		"13.99":                 "no CUDA 13.99 is known: the nearest is 13.5",
		"99.0":                  "no CUDA 99.0 is known: the table of driver-build has 7.0 to 13.5",
		"":                      `"" is no release of CUDA, such as 12.8`,
		"v12.8":                 "is no release of CUDA, such as 12.8",
		"12.8\n":                "is no release of CUDA",
		"012.8":                 "is no release of CUDA, such as 12.8",
		"-1.0":                  "is no release of CUDA",
		"$(id).1":               "is no release of CUDA, such as 12.8",
		strings.Repeat("1", 99): `"1111111111111111111111111111111111111111`,
	} {
		err := assert.Err(RequireCUDA(&matrix.Matrix{}, text))
		assert.ErrorContainsf(t, err, want, "%.20q", text)
		assert.Equalf(t, true, len(err.Error()) < 200, "a short message: %v", err)
	}
}
