package distros

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestKernelOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ system, name, release, flavour string }{
		{"debian12", "linux-headers-6.1.0-38-amd64", "6.1.0-38-amd64", "amd64"},
		{"debian12", "linux-headers-6.1.0-38-cloud-amd64", "6.1.0-38-cloud-amd64", "cloud-amd64"},
		{"debian12", "linux-headers-6.1.0-38-rt-amd64", "6.1.0-38-rt-amd64", "rt-amd64"},
		{"debian12", "linux-headers-6.12.43+deb12-amd64", "6.12.43+deb12-amd64", "amd64"},
		{"debian12", "linux-headers-6.12.9+bpo-rt-amd64", "6.12.9+bpo-rt-amd64", "rt-amd64"},
		{"debian11", "linux-headers-6.1.0-0.deb11.21-amd64", "6.1.0-0.deb11.21-amd64", "amd64"},
		{"debian11", "linux-headers-5.10.0-35-arm64", "5.10.0-35-arm64", "arm64"},
		{"debian12", "linux-headers-6.1.0-38-cloud-arm64", "6.1.0-38-cloud-arm64", "cloud-arm64"},
		{"debian13", "linux-headers-6.12.43+deb13-arm64-16k", "6.12.43+deb13-arm64-16k", "arm64-16k"},
		{"debian13", "linux-headers-6.12.43+deb13-rt-arm64", "6.12.43+deb13-rt-arm64", "rt-arm64"},
		{"debian13", "linux-headers-6.17-rc4-amd64", "6.17-rc4-amd64", "amd64"},
		{"debian12", "linux-headers-6.1.99", "6.1.99", ""}, // of make bindeb-pkg
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
		{"ubuntu18.04", "linux-headers-4.15.0-1051-aws", "4.15.0-1051-aws", "aws"},
		{"ubuntu22.04", "linux-headers-5.15.0-69-generic", "5.15.0-69-generic", "generic"},
		{"ubuntu22.04", "linux-headers-5.15.0-69-lowlatency", "5.15.0-69-lowlatency", "lowlatency"},
		{"ubuntu24.04", "linux-headers-6.8.0-106-generic", "6.8.0-106-generic", "generic"},
		{"ubuntu24.04", "linux-headers-6.8.0-31-generic-64k", "6.8.0-31-generic-64k", "generic-64k"},
		{"ubuntu24.04", "linux-headers-6.8.0-1010-nvidia-lowlatency", "6.8.0-1010-nvidia-lowlatency", "nvidia-lowlatency"},
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
		d, err := Lookup(tt.system)
		if err != nil {
			t.Fatal(err)
		}
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
		want := []string{"amd64", "arm64", ""}
		if strings.HasPrefix(d.ID(), "ubuntu") {
			want = []string{"generic", "generic", ""}
		}
		got := []string{d.KernelFlavour("amd64"), d.KernelFlavour("arm64"), d.KernelFlavour("sparc")}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", d.ID(), diff)
		}
		if got := d.KernelMeta("cloud-amd64"); got != "linux-headers-cloud-amd64" {
			t.Errorf("%s: %s", d.ID(), got)
		}
		if images := d.KernelImages("6.1.0-38-amd64"); !slices.Contains(images, "linux-image-6.1.0-38-amd64") {
			t.Errorf("%s: %q", d.ID(), images)
		}
	}
}

// inOrder is from the oldest to the newest.
var inOrder = []string{
	"rc1", "", "amd64", "4.4.0-1092-aws", "4.15.0-1051-aws", "5.10", "5.10.0-9-amd64", "5.10.0-35-amd64", "6.1-rc2-amd64", "6.1-rc10-amd64", "6.1",
	"6.1-amd64", "6.1.0", "6.1.0-amd64", "6.1.0-0.deb11.9-amd64", "6.1.0-0.deb11.21-amd64", "6.1.0-9-amd64", "6.1.0-38", "6.1.0-38-amd64",
	"6.1.0-38-cloud-amd64", "6.1.0-38-rt-amd64", "6.1.0-38.1-amd64", "6.1.9", "6.1.85", "6.1.85+", "6.8.0-31-generic", "6.8.0-31-generic-64k",
	"6.8.0-106-generic", "6.12.9+bpo-amd64", "6.12.43-amd64", "6.12.43+deb12-amd64", "6.12.43+deb12-cloud-amd64", "6.12.43+deb12+1-amd64",
	"6.12.43+deb13-amd64", "6.12.43-1-amd64", "10.0.0-1-amd64",
}

func TestCompareReleases(t *testing.T) {
	t.Parallel()
	for i, a := range inOrder {
		for j, b := range inOrder {
			if got := CompareReleases(a, b); got != cmp.Compare(i, j) {
				t.Errorf("CompareReleases(%q, %q) = %d", a, b, got)
			}
		}
	}
}

// release is text that looks like one now and then.
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
		if got := KernelTag(release); got != want {
			t.Errorf("KernelTag(%q) = %q; want %q", release, got, want)
		}
	}
}

func FuzzKernelOf(f *testing.F) {
	for _, seed := range inOrder {
		f.Add("linux-headers-" + seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		for _, d := range All() {
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
