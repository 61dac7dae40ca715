package distros

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

func TestKernelOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ system, name, release, flavour string }{
		{"debian12", "linux-headers-6.1.0-38-amd64", "6.1.0-38-amd64", "amd64"},
		{"debian12", "linux-headers-6.1.0-38-cloud-amd64", "6.1.0-38-cloud-amd64", "cloud-amd64"},
		{"debian12", "linux-headers-6.1.0-38-rt-amd64", "6.1.0-38-rt-amd64", "rt-amd64"},
		{"debian12", "linux-headers-6.12.43+deb12-amd64", "6.12.43+deb12-amd64", "amd64"},
		{"debian11", "linux-headers-6.1.0-0.deb11.21-amd64", "6.1.0-0.deb11.21-amd64", "amd64"},
		{"debian13", "linux-headers-6.12.43+deb13-arm64-16k", "6.12.43+deb13-arm64-16k", "arm64-16k"},
		{"debian13", "linux-headers-6.17-rc4-amd64", "6.17-rc4-amd64", "amd64"},
		{"gardenlinux1877", "linux-headers-6.12.40-cloud-amd64", "6.12.40-cloud-amd64", "cloud-amd64"},
		{"gardenlinux2150", "linux-headers-6.18.35-firecracker-amd64", "6.18.35-firecracker-amd64", "firecracker-amd64"},
		{"gardenlinux1877", "linux-headers-6.12.40-common", "", ""},
		{"gardenlinux1877", "linux-headers-cloud-amd64", "", ""},
		{"debian12", "linux-headers-6.1.99", "6.1.99", ""}, // from make bindeb-pkg
		{"debian12", "linux-headers-6.1.99+", "6.1.99+", ""},
		{"debian12", "linux-headers-6.1.99-site1", "6.1.99-site1", "site1"},
		{"debian12", "linux-headers-6.1.0-38-common", "", ""},
		{"debian12", "linux-headers-6.1.0-38-common-rt", "", ""},
		{"debian12", "linux-headers-6.12.43+deb12-common", "", ""},
		{"debian12", "linux-headers-6.1.0-38-all-amd64", "", ""},
		{"debian12", "linux-headers-6.1.0-38-all", "", ""},
		{"debian12", "linux-headers-amd64", "", ""},
		{"debian12", "linux-headers-6.12-amd64", "", ""}, // metapackages of the second series
		{"debian12", "linux-headers-6.12-cloud-amd64", "", ""},
		{"debian12", "linux-headers-", "", ""},
		{"debian12", "linux-headers-6", "", ""},
		{"debian12", "linux-image-6.1.0-38-amd64", "", ""},
		{"debian12", "linux-headers-6.1.0-38-AMD64", "", ""},
		{"debian12", "linux-headers-6.1.0-" + strings.Repeat("1", 70), "", ""},
		{"ubuntu16.04", "linux-headers-4.4.0-1092-aws", "4.4.0-1092-aws", "aws"},
		{"ubuntu22.04", "linux-headers-5.15.0-69-generic", "5.15.0-69-generic", "generic"},
		{"ubuntu24.04", "linux-headers-6.8.0-31-generic-64k", "6.8.0-31-generic-64k", "generic-64k"},
		{"ubuntu24.04", "linux-headers-6.8.0-1010-nvidia-lowlatency", "6.8.0-1010-nvidia-lowlatency", "nvidia-lowlatency"},
		{"ubuntu22.04", "linux-headers-5.15.0-1044-intel-iotg", "5.15.0-1044-intel-iotg", "intel-iotg"},
		{"ubuntu24.04", "linux-headers-6.8.1-1015-realtime", "6.8.1-1015-realtime", "realtime"},
		{"ubuntu26.04", "linux-headers-7.0.0-29-generic", "7.0.0-29-generic", "generic"},
		{"ubuntu24.04", "linux-headers-azure-lts-24.04", "", ""},
		{"ubuntu24.04", "linux-headers-nvidia-hwe-24.04", "", ""},
		{"ubuntu22.04", "linux-headers-6.1.99-060199-generic", "6.1.99-060199-generic", "generic"},
		{"ubuntu22.04", "linux-headers-6.1.99-site1", "6.1.99-site1", "site1"},
		{"ubuntu22.04", "linux-headers-6.1.99", "6.1.99", ""},
		{"ubuntu22.04", "linux-headers-5.15.0-69", "", ""},
		{"ubuntu22.04", "linux-headers-6.1.99-060199", "", ""},
		{"ubuntu22.04", "linux-headers-generic", "", ""},
		{"ubuntu22.04", "linux-headers-generic-hwe-22.04", "", ""},
		{"ubuntu22.04", "linux-headers-generic-6.8", "", ""},
		{"ubuntu22.04", "linux-headers-oem-22.04d", "", ""},
		{"ubuntu22.04", "linux-hwe-5.15-headers-5.15.0-69", "", ""},
		{"ubuntu22.04", "linux-aws-headers-5.15.0-1034", "", ""},
	} {
		d := require.Value(Lookup(tt.system))(t)
		release, flavour, ok := d.KernelOf(tt.name)
		if release != tt.release || flavour != tt.flavour || ok != (tt.release != "") {
			t.Errorf("%s: KernelOf(%q) = %q, %q, %v; want %q, %q", tt.system, tt.name, release, flavour, ok, tt.release, tt.flavour)
		}
		if ok && !slices.Equal(d.Headers(release), []string{tt.name}) {
			t.Errorf("%s: the headers of %s are %q", tt.system, release, d.Headers(release))
		}
	}
}

func TestKernelNames(t *testing.T) {
	t.Parallel()
	for _, d := range All() {
		if d.PackageManager() != "apt" {
			continue // TestRPMKernelNames and TestFlatcar test it
		}
		family, _ := d.OSRelease()
		want := map[string]string{"debian": "amd64 arm64 ", "ubuntu": "generic generic ", "gardenlinux": "cloud-amd64 cloud-arm64 "}[family]
		assert.Equal(t, want, strings.Join([]string{d.KernelFlavour("amd64"), d.KernelFlavour("arm64"), d.KernelFlavour("sparc")}, " "))
		assert.Equal(t, "linux-headers-cloud-amd64", d.KernelMeta("cloud-amd64"))
		assert.Equal(t, true, slices.Contains(d.KernelImages("6.1.0-38-amd64"), "linux-image-6.1.0-38-amd64"))
	}
}

// inOrder is sorted from the oldest to the newest.
var inOrder = []string{
	"rc1", "", "amd64", "4.4.0-1092-aws", "4.15.0-1051-aws", "5.10", "5.10.0-9-amd64", "5.10.0-35-amd64", "6.1-rc2-amd64", "6.1-rc10-amd64", "6.1",
	"6.1-amd64", "6.1.0", "6.1.0-amd64", "6.1.0-0.deb11.9-amd64", "6.1.0-0.deb11.21-amd64", "6.1.0-9-amd64", "6.1.0-38", "6.1.0-38-amd64",
	"6.1.0-38-cloud-amd64", "6.1.0-38-rt-amd64", "6.1.0-38.1-amd64", "6.1.9", "6.1.85", "6.1.85+", "6.8.0-31-generic", "6.8.0-31-generic-64k",
	"6.8.0-106-generic", "6.12.9+bpo-amd64", "6.12.43-amd64", "6.12.43+deb12-amd64", "6.12.43+deb12-cloud-amd64", "6.12.43+deb12+1-amd64",
	"6.12.43+deb13-amd64", "6.12.43-1-amd64", "10.0.0-1-amd64",
}

// inRPMOrder has releases of systems that inOrder lacks.
var inRPMOrder = []string{
	"3.10.0-1160.el7.x86_64", "3.10.0-1160.9.1.el7.x86_64", "3.10.0-1160.119.1.el7.x86_64", "3.10.0-1160.119.1.el7.x86_64.debug",
	"4.14.355-275.570.amzn2.x86_64", "4.14.355-276.639.amzn2.x86_64", "4.18.0-477.10.1.el8_8.x86_64", "4.18.0-477.27.1.el8_8.x86_64",
	"4.18.0-477.27.1.el8_8.x86_64+debug", "4.18.0-553.el8_10.x86_64", "4.18.0-553.9.1.el8_10.x86_64", "4.18.0-553.16.1.el8_10.x86_64",
	"5.3.18-57-default", "5.3.18-150300.59.9-default", "5.3.18-150300.59.170-default", "5.14.0-427.el9.x86_64", "5.14.0-427.13.1.el9_4.x86_64",
	"5.14.0-427.13.1.el9_4.x86_64+rt", "5.14.0-427.50.1.el9_4.x86_64", "5.14.0-503.el9_5.x86_64", "5.14.0-565.el9.x86_64", "5.14.0-570.el9.x86_64", "5.14.21-150500.55.19-default",
	"5.15.0-9.96.32.el8uek.x86_64", "5.15.0-206.153.7.el8uek.x86_64", "5.15.0-206.153.7.1.el8uek.x86_64", "6.1.112-122.189.amzn2023.x86_64",
	"6.4.0-150600.21-default", "6.4.0-150600.23.7-default", "6.4.0-150600.23.25-default", "6.6.54-flatcar", "6.6.64.2-7.azl3", "6.6.64.2-10.azl3", "6.6.129.1-2.azl3", "6.11.4-301.fc41.x86_64",
	"6.12.0-0.rc6.51.fc42.x86_64", "6.12.0-55.9.1.el10_0.x86_64", "6.12.0-160000.5-default", "6.12.0-160000.27-default", "6.12.29-33.102.amzn2023.aarch64", "6.12.102-flatcar",
	"7.2.7-200.fc44.x86_64", "7.2.10-300.fc45.x86_64",
}

func TestCompareReleases(t *testing.T) {
	t.Parallel()
	for _, list := range [][]string{inOrder, inRPMOrder} {
		for i, a := range list {
			for j, b := range list {
				assert.Equalf(t, cmp.Compare(i, j), CompareReleases(a, b), "CompareReleases(%q, %q)", a, b)
			}
		}
	}
}

// release generates text that sometimes looks like a release.
func release() *rapid.Generator[string] {
	field := rapid.OneOf(rapid.SampledFrom([]string{"6", "1", "01", "12", "rc", "amd64", "a", "B", "é", ""}), rapid.StringN(0, 3, 6))
	return rapid.Custom(func(t *rapid.T) string {
		var b strings.Builder
		for range rapid.IntRange(0, 5).Draw(t, "fields") {
			b.WriteString(field.Draw(t, "field"))
			b.WriteString(rapid.SampledFrom([]string{".", "-", "+", ""}).Draw(t, "separator"))
		}
		return b.String()
	})
}

func TestCompareReleasesIsTotal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := release().Draw(t, "a"), release().Draw(t, "b"), release().Draw(t, "c")
		ab, bc := CompareReleases(a, b), CompareReleases(b, c)
		if ab != -CompareReleases(b, a) || (ab == 0) != (a == b) {
			t.Fatalf("%q %q: %d and %d", a, b, ab, CompareReleases(b, a))
		}
		if ac := CompareReleases(a, c); ab == bc && ac != ab {
			t.Fatalf("%q, %q, %q: %d, %d, but %d", a, b, c, ab, bc, ac)
		}
	})
}

func TestKernelTag(t *testing.T) {
	t.Parallel()
	for release, want := range map[string]string{
		"6.1.0-38-amd64":                     "6.1.0-38-amd64",
		"6.1.85+":                            "6.1.85",
		"6.12.43+deb12-amd64":                "6.12.43_deb12-amd64",
		"5.14.0-427.el9.aarch64+64k":         "5.14.0-427.el9.aarch64_64k",
		"6.1.0~rc1 é/x\xff":                  "6.1.0_rc1___x",
		"-_.6.1._-":                          "6.1",
		"++":                                 "",
		"5.14.0-284.11.1.el9_2.x86_64":       "5.14.0-284.11.1.el9_2.x86_64",
		"4.18.0-477.10.1.el8_8.x86_64+debug": "4.18.0-477.10.1.el8_8.x86_64_debug",
	} {
		assert.Equalf(t, want, KernelTag(release), "KernelTag(%q)", release)
	}
}

func FuzzKernelOf(f *testing.F) {
	for _, seed := range append(inRPMOrder, inOrder...) {
		f.Add("linux-headers-" + seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		for _, d := range All() {
			rest := strings.TrimPrefix(name, headersPrefix)
			if r := ParseRelease(rest); r.Text != rest || r.WithoutFlavour() != rest[:len(r.WithoutFlavour())] {
				t.Fatalf("%q: %+v", rest, r)
			}
			d.BuildDirs(rest)
			d.ModulePackages(rest)
			if p, ok := d.(RPM); ok {
				p.ReleaseVers(rest)
				p.ExtraRepositories(rest, "amd64")
				for _, provide := range p.KernelProvides() {
					if release, _, ok := p.KernelOfProvide(provide, rest, "1-1"); ok && (p.Headers(release) == nil || KernelTag(release) == "" || p.BuildDirs(release) == nil) {
						t.Fatalf("%s: %q", d.ID(), release)
					}
				}
			}
			release, flavour, ok := d.KernelOf(name)
			if !ok {
				continue
			}
			if !slices.Equal(d.Headers(release), []string{name}) || !strings.HasSuffix(release, flavour) || KernelTag(release) == "" {
				t.Errorf("%s: %q: %q, %q, tag %q", d.ID(), name, release, flavour, KernelTag(release))
			}
		}
	})
}

func TestArchOfRelease(t *testing.T) {
	t.Parallel()
	for release, want := range map[string]string{
		"6.1.0-38-amd64": "amd64", "6.1.0-38-cloud-arm64": "arm64", "5.14.0-503.el9.x86_64": "amd64", "5.14.0-503.el9.aarch64": "arm64",
		"6.8.0-45-generic": "", "6.4.0-150600.23-default": "", "latest": "", "latest:2": "", "": "",
	} {
		got, ok := ArchOfRelease(release)
		assert.Equalf(t, want, got, "%s", release)
		assert.Equalf(t, want != "", ok, "%s", release)
	}
}

// TestNoHeaders: what is no release of a kernel leads to no package; TestKernelOf has those that do.
func TestNoHeaders(t *testing.T) {
	t.Parallel()
	for _, release := range []string{
		"4.15.0~rc1", "", "6.1.0/../../etc", "6.1.0 amd64", "6.1.0_Custom", "amd64", "-6", "6" + strings.Repeat("1", 64),
	} {
		for _, d := range All() {
			if got := d.Headers(release); d.PackageManager() == "apt" && got != nil {
				t.Errorf("%s: Headers(%q) = %q", d.ID(), release, got)
			}
		}
	}
}
