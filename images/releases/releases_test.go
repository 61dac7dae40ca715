package releases

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	drivercontainer "github.com/driver-container/driver-container"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/matrix"
)

func TestBuiltin(t *testing.T) {
	t.Parallel()
	table := Builtin()
	archives := 0
	for n, b := range table.Branches {
		if n > 0 && matrix.CompareVersions(table.Branches[n-1].Name, b.Name) >= 0 {
			t.Errorf("%s after %s", b.Name, table.Branches[n-1].Name)
		}
		assert.Equalf(t, true, branchShape.MatchString(b.Name), "%q", b.Name)
		if _, err := time.Parse("2006-01", b.End); b.End != "" && b.End != EndPassed && err != nil {
			t.Errorf("%s: end %q", b.Name, b.End)
		}
		for i, r := range b.Releases {
			assert.Equalf(t, true, matrix.HasForm("version", r.Version), "%q", r.Version)
			if i > 0 && byVersion(b.Releases[i-1], r) >= 0 || BranchOf(r.Version) != b.Name {
				t.Errorf("%s: %s stands behind %s", b.Name, r.Version, b.Releases[max(i, 1)-1].Version)
			}
			if _, err := time.Parse(time.DateOnly, r.Date); r.Date != "" && err != nil {
				t.Errorf("%s: date %q", r.Version, r.Date)
			}
			assert.Equalf(t, r.Reason == "", r.Kernel == "", "%s: kernel %q, reason %q", r.Version, r.Kernel, r.Reason)
			for _, a := range r.Archives {
				assert.Equalf(t, true, matrix.HasForm("digest", a.SHA256) && a.Size >= 0, "%s: %+v", r.Version, a)
				if a.Component != "" {
					assert.Equalf(t, true, componentNames[a.Component] != "" || a.Component == redistDriver, "%s", a.Component)
					if f := (matrix.Archive{URL: a.URL}); !f.Redist() || !strings.HasPrefix(a.URL, redistHost) || !strings.Contains(a.URL, a.Version) || a.From == "" {
						t.Errorf("%s: %+v", r.Version, a)
					}
					continue
				}
				archives++
				if !urlShape.MatchString(a.URL) || !strings.Contains(a.URL, r.Version) || a.From == "" {
					t.Errorf("%s %s: %+v", r.Version, a.Arch, a)
				}
			}
		}
	}
	assert.Equalf(t, len(rows("checksums.tsv")), archives, "archives")
	b, _ := table.Branch("535.1")
	newest := b.Releases[len(b.Releases)-1]
	if b.Type != LongTerm || b.End != "2026-06" || b.CUDA != "12.2" || b.Kernel != "3.10" || newest.Version != "535.309.01" {
		t.Errorf("R535: %s %s %s %s, newest %s", b.Type, b.End, b.CUDA, b.Kernel, newest.Version)
	}
}

// The matrix of this project and the table agree on the archives and the limits that both have.
func TestAgreesWithMatrix(t *testing.T) {
	t.Parallel()
	table := Builtin()
	m := require.Value(matrix.Parse("matrix.yaml", drivercontainer.Matrix))(t)
	for _, d := range m.Drivers {
		r, ok := table.Release(d.Version)
		if !ok {
			t.Errorf("the table lacks %s", d.Version)
		}
		b, _ := table.Branch(d.Version)
		if b.Kernel != "" && b.Kernel != d.Kernel.Min || r.Kernel != "" && r.Kernel != d.Kernel.Max {
			t.Errorf("%s: kernels %s to %s, the matrix has %s to %s", d.Version, b.Kernel, r.Kernel, d.Kernel.Min, d.Kernel.Max)
		}
		for arch, a := range d.Archives {
			if got, ok := r.Driver(arch); !ok || got.SHA256 != a.SHA256 || got.Size != a.Size {
				t.Errorf("%s %s: %+v, the matrix has %+v", d.Version, arch, got, a)
			}
		}
		agreeOnComponents(t, r, d)
	}
}

// packagedAlone are drivers whose images are made of Debian's packages alone, where only Debian's archive is reached: the
// first command of README does that, and so do the tests. They have no components, which NVIDIA's server has.
var packagedAlone = []string{"470.256.02", "535.261.03"}

// agreeOnComponents: a component whose checksum the table has is in the driver's row, with the same archive, and the
// row has no other: else images lack the fabric manager though it is known.
func agreeOnComponents(t *testing.T, r Release, d matrix.Driver) {
	t.Helper()
	if slices.Contains(packagedAlone, d.Version) {
		assert.Equalf(t, 0, len(d.Components), "components of %s", d.Version)
		return
	}
	want := matrix.Components{}
	for _, a := range r.Archives {
		name := componentNames[a.Component]
		_, offered := d.Archives[a.Arch]
		if name == "" || !offered {
			continue
		}
		if want[name] == nil {
			want[name] = map[string]matrix.Archive{}
		}
		want[name][a.Arch] = matrix.Archive{URL: a.URL, SHA256: a.SHA256, Size: a.Size}
	}
	if diff := cmp.Diff(want, d.Components, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("components of %s: -table +matrix\n%s", d.Version, diff)
	}
}

// TestInterfacesOfReleases: each release with open modules can be a row beside the interfaces of the matrix: no two of these
// speak of one driver and kernel. The kernels are those with which the tags of NVIDIA/open-gpu-kernel-modules do and do not
// compile, as Gentoo's patches and NVIDIA's conftest.sh say.
func TestInterfacesOfReleases(t *testing.T) {
	t.Parallel()
	_, interfaces, _ := strings.Cut(string(drivercontainer.Matrix), "\ninterfaces:\n")
	interfaces, _, _ = strings.Cut(interfaces, "\ncompanions:\n")
	var text strings.Builder
	text.WriteString("systems: [{id: debian13, base: debian:13, archs: [amd64], kernels: [6.12]}]\ninterfaces:\n" + interfaces + "\ndrivers:\n")
	for _, b := range Builtin().Branches {
		for _, r := range b.Releases {
			archive := matrix.Archive{URL: "https://example.com/x.run", SHA256: strings.Repeat("1", 64)}
			row := matrix.Driver{Version: r.Version, Archives: map[string]matrix.Archive{"amd64": archive}}
			if matrix.Major(r.Version) >= matrix.FirstOpen {
				text.WriteString(require.Value(matrix.Stanza(row, nil))(t))
			}
		}
	}
	m := require.Value(matrix.Parse("releases.yaml", []byte(text.String())))(t)
	for _, c := range []struct {
		driver, kernel, broken string
	}{
		{"580.95.05", "6.17.13", ""}, {"580.95.05", "6.18.5", "get_dev_pagemap"}, {"580.105.08", "6.18.5", "get_dev_pagemap"},
		{"580.119.02", "6.18.5", ""}, {"580.126.09", "6.18.45", ""}, {"580.126.09", "6.19.1", "zone_device_page_init"},
		{"580.126.16", "6.19.1", "zone_device_page_init"}, {"580.126.18", "6.19.1", ""}, {"590.48.01", "6.19.1", "zone_device_page_init"},
		{"595.45.04", "6.19.1", ""}, {"580.95.05", "6.19.1", "pci_resize_resource"},
	} {
		i := slices.IndexFunc(m.Drivers, func(d matrix.Driver) bool { return d.Version == c.driver })
		if i < 0 {
			t.Fatalf("the table lacks %s", c.driver)
		}
		for _, flavour := range m.Drivers[i].Flavours {
			broken := m.Drivers[i].Kernel.CheckFlavour(driverinfo.Kernel{Release: c.kernel, Version: c.kernel}, flavour)
			want := c.broken != "" && flavour == matrix.Open
			assert.Equalf(t, want, broken != nil && strings.HasPrefix(broken.Broken.Reason, c.broken), "%s %s on %s: %v", c.driver, flavour, c.kernel, broken)
		}
	}
}

const sample = `{
  "535": {"type": "lts branch", "driver_info": [
    {"release_version": "535.400.01", "release_date": "2026-05-12", "release_notes": "https://docs.nvidia.com/x/index.html",
     "architectures": ["x86_64", "aarch64"], "runfile_url": {"x86_64": "https://us.download.nvidia.com/tesla/535.400.01/NVIDIA-Linux-x86_64-535.400.01.run",
      "aarch64": "https://us.download.nvidia.com/tesla/535.400.01/NVIDIA-Linux-aarch64-535.400.01.run", "ppc64le": "https://x/y.run"}},
    {"release_version": "535.261.03", "release_date": "17 July", "runfile_url": "https://mirror.example.com/other.run"},
    {"release_version": "550.1.1"}, {"release_version": 5}, {"release_version": "535.<b>.1"}]},
  "r999": {"type": "new feature branch", "driver_info": [{"release_version": "999.10", "release_notes": "javascript:alert(1)",
     "runfile_url": {"x86_64": "file:///etc/passwd.run"}}]},
  "extra": {}
}`

func TestParse(t *testing.T) {
	t.Parallel()
	fresh, notes, err := Parse([]byte(sample))
	require.NoError(t, err)
	table := Builtin().Merge(fresh)
	r, ok := table.Release("535.400.01")
	if want := (Release{Version: "535.400.01", Date: "2026-05-12", Notes: "https://docs.nvidia.com/x/index.html", Archives: []Archive{
		{Arch: "amd64", URL: "https://us.download.nvidia.com/tesla/535.400.01/NVIDIA-Linux-x86_64-535.400.01.run"},
		{Arch: "arm64", URL: "https://us.download.nvidia.com/tesla/535.400.01/NVIDIA-Linux-aarch64-535.400.01.run"},
	}}); !ok || cmp.Diff(want, r) != "" {
		t.Errorf("%s", cmp.Diff(want, r))
	}
	before, _ := Builtin().Release("535.261.03")
	if after, _ := table.Release("535.261.03"); cmp.Diff(before, after) != "" {
		t.Errorf("a list without checksums changed what has one: %s", cmp.Diff(before, after))
	}
	if b, _ := table.Branch("R999"); b.Type != NewFeature || len(b.Releases) != 1 || len(b.Releases[0].Archives) != 0 || b.Releases[0].Notes != "" {
		t.Errorf("R999: %+v", b)
	}
	all := strings.Join(notes, "\n")
	for _, want := range []string{"550.1.1 is not of this branch", `"535.<b>.1" is no driver version`, "it is no release", `left out "extra"`} {
		assert.Containsf(t, all, want, "notes lack")
	}
	for _, text := range []string{"", "[]", "{}", `{"535": {}}`, `{"535": 5}`, "<html>"} {
		if _, _, err := Parse([]byte(text)); !errors.Is(err, ErrFormat) {
			t.Errorf("Parse(%.20q): %v", text, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte(`{"535":{"driver_info":[{"release_version":"535.1"},{"release_version":"535.01"},{"release_version":"535.1.0"}]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		table, _, err := Parse(text)
		if err != nil {
			return
		}
		for _, b := range table.Branches {
			for i, r := range b.Releases {
				if !matrix.HasForm("version", r.Version) || BranchOf(r.Version) != b.Name || i > 0 && byVersion(b.Releases[i-1], r) >= 0 {
					t.Fatalf("%s: %+v", b.Name, b.Releases)
				}
				for _, a := range r.Archives {
					if !urlShape.MatchString(a.URL) || a.SHA256 != "" {
						t.Fatalf("%+v", a)
					}
				}
			}
		}
	})
}
