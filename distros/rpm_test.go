package distros

import (
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

func lookup(t *testing.T, id string) RPM {
	t.Helper()
	d := require.Value(Lookup(id))(t)
	r, ok := d.(RPM)
	if !ok {
		t.Fatalf("%s has no rpm packages", id)
	}
	return r
}

func TestParseRelease(t *testing.T) {
	t.Parallel()
	for _, tt := range []Release{
		{"4.4.0-1092-aws", "4.4.0", "1092", "aws", "", ""},
		{"5.15.0-69-generic", "5.15.0", "69", "generic", "", ""},
		{"6.5.0-1024-nvidia-64k", "6.5.0", "1024", "nvidia-64k", "", ""},
		{"6.1.0-38-cloud-amd64", "6.1.0", "38", "cloud-amd64", "", ""},
		{"6.12.43+deb12-rt-amd64", "6.12.43", "deb12", "rt-amd64", "", ""},
		{"6.1.85+", "6.1.85", "", "", "", ""},
		{"6.6.54-flatcar", "6.6.54", "", "flatcar", "", ""},
		{"5.10.1-netflix-12", "5.10.1", "", "netflix-12", "", ""},
		{"3.10.0-1160.119.1.el7.x86_64", "3.10.0", "1160.119.1.el7", "", "x86_64", "el7"},
		{"3.10.0-1160.119.1.el7.x86_64.debug", "3.10.0", "1160.119.1.el7", "debug", "x86_64", "el7"},
		{"3.10.0-1160.119.1.rt56.1269.el7.x86_64", "3.10.0", "1160.119.1.rt56.1269.el7", "rt", "x86_64", "el7"},
		{"4.18.0-553.16.1.rt7.357.el8_10.x86_64", "4.18.0", "553.16.1.rt7.357.el8_10", "rt", "x86_64", "el8_10"},
		{"4.18.0-553.16.1.rt7.357.el8_10.x86_64+debug", "4.18.0", "553.16.1.rt7.357.el8_10", "rt-debug", "x86_64", "el8_10"},
		{"4.18.0-477.10.1.el8_8.x86_64+debug", "4.18.0", "477.10.1.el8_8", "debug", "x86_64", "el8_8"},
		{"5.14.0-427.13.1.el9_4.x86_64", "5.14.0", "427.13.1.el9_4", "", "x86_64", "el9_4"},
		{"5.14.0-427.13.1.el9_4.x86_64+rt", "5.14.0", "427.13.1.el9_4", "rt", "x86_64", "el9_4"},
		{"5.14.0-427.13.1.el9_4.x86_64+rt-debug", "5.14.0", "427.13.1.el9_4", "rt-debug", "x86_64", "el9_4"},
		{"5.14.0-427.el9.aarch64+64k", "5.14.0", "427.el9", "64k", "aarch64", "el9"},
		{"5.14.0-427.20.1.el9_4.cloud.1.0.x86_64", "5.14.0", "427.20.1.el9_4.cloud.1.0", "", "x86_64", "el9_4"},
		{"6.10.6-1.el9.elrepo.x86_64", "6.10.6", "1.el9.elrepo", "", "x86_64", "el9"},
		{"5.4.17-2136.305.5.4.el7uek.x86_64", "5.4.17", "2136.305.5.4.el7uek", "uek", "x86_64", "el7uek"},
		{"5.15.0-206.153.7.el8uek.x86_64", "5.15.0", "206.153.7.el8uek", "uek", "x86_64", "el8uek"},
		{"6.12.0-105.51.5.el9uek.aarch64.64k", "6.12.0", "105.51.5.el9uek", "uek64k", "aarch64", "el9uek"},
		{"6.12.0-105.51.5.el9uek.x86_64.debug", "6.12.0", "105.51.5.el9uek", "uek-debug", "x86_64", "el9uek"},
		{"4.14.355-275.570.amzn2.x86_64", "4.14.355", "275.570.amzn2", "", "x86_64", "amzn2"},
		{"6.1.112-122.189.amzn2023.x86_64", "6.1.112", "122.189.amzn2023", "", "x86_64", "amzn2023"},
		{"6.11.4-301.fc41.x86_64", "6.11.4", "301.fc41", "", "x86_64", "fc41"},
		{"7.2.0-0.rc4.260725g0ce37745d4bf.39.fc45.x86_64", "7.2.0", "0.rc4.260725g0ce37745d4bf.39.fc45", "", "x86_64", "fc45"},
		{"7.2.6-cachyos1.apex1.fc43.x86_64", "7.2.6", "", "cachyos1.apex1.fc43.x86_64", "", ""},
		{"5.3.18-57-default", "5.3.18", "57", "default", "", ""},
		{"6.4.0-150600.23.25-default", "6.4.0", "150600.23.25", "default", "", ""},
		{"6.4.0-150600.23.25-64kb", "6.4.0", "150600.23.25", "64kb", "", ""},
		{"6.4.0-150600.8.17-azure", "6.4.0", "150600.8.17", "azure", "", ""},
		{"", "", "", "", "", ""},
		{"amd64", "", "amd64", "", "", ""},
	} {
		assert.Samef(t, tt, ParseRelease(tt.Text), "%s", tt.Text)
	}
}

// TestKinds has kernels for which no driver's modules can be made, as nodes name them, and others that look alike. Whatever
// stands around the word changes nothing.
func TestKinds(t *testing.T) {
	t.Parallel()
	for kind, releases := range map[KernelKind]string{
		TegraKernel: "5.15.148-tegra 5.15.136-rt-tegra 5.15.0-1027-nvidia-tegra 5.15.0-1012-nvidia-tegra-igx 6.8.0-1004-nvidia-tegra-rt " +
			"4.9.140-l4t-r32.3.1+g47e7e1cb0b49 4.9.140-l4t-r32.3.1_g47e7e1cb0b49 5.15.148-l4t-r36.4.3-1012.12 4.9.253-tegra+",
		WSLKernel: "6.6.87.2-microsoft-standard-WSL2 5.15.153.1-microsoft-standard-WSL2+ 4.4.0-19041-Microsoft 6.6.36-custom-WSL2",
		RealtimeKernel: "6.8.1-1015-realtime 5.15.0-1032-realtime 6.1.0-38-rt-amd64 6.12.43+deb12-rt-amd64 5.14.0-427.13.1.el9_4.x86_64+rt " +
			"5.14.0-427.13.1.el9_4.x86_64+rt-debug 4.18.0-553.16.1.rt7.357.el8_10.x86_64 3.10.0-1160.119.1.rt56.1269.el7.x86_64 " +
			"6.4.0-150600.10.5-rt 5.15.0-rt17 6.6.10-rt18-custom 6.1.77-4.ph5-rt 5.15.55.1-rt48-2.cm2",
		OrdinaryKernel: "6.8.0-60-generic 5.15.0-1092-azure 6.6.96.1-1.azl3 6.1.0-53-amd64 6.6.20+rpt-rpi-v8 6.12.0-rc1 6.5.0-1024-nvidia-64k " +
			"6.10.14-linuxkit 6.1.141 5.10.1-netflix-12 6.6.60-flatcar 6.8.12-4-pve 6.1.0-art 6.1.0-start1 5.10.0-short 6.18.9-talos " +
			"5.15.0-206.153.7.el8uek.x86_64 6.4.0-150600.23.25-default amd64",
	} {
		for release := range strings.FieldsSeq(releases) {
			assert.Equalf(t, kind, ParseRelease(release).Kind(), "%s", release)
			assert.Equalf(t, kind, ParseRelease(KernelTag(release)).Kind(), "the label of %s", release)
		}
	}
}

func TestWithoutFlavour(t *testing.T) {
	t.Parallel()
	for release, want := range map[string]string{
		"6.1.0-38-cloud-amd64":               "6.1.0-38",
		"6.4.0-150600.23.25-default":         "6.4.0-150600.23.25",
		"5.14.0-427.13.1.el9_4.x86_64":       "5.14.0-427.13.1.el9_4.x86_64",
		"5.14.0-427.13.1.el9_4.x86_64+rt":    "5.14.0-427.13.1.el9_4.x86_64",
		"3.10.0-1160.el7.x86_64.debug":       "3.10.0-1160.el7.x86_64",
		"5.15.0-206.153.7.el8uek.x86_64":     "5.15.0-206.153.7.el8uek.x86_64",
		"6.12.0-105.51.5.el9uek.aarch64.64k": "6.12.0-105.51.5.el9uek.aarch64",
		"6.1.99":                             "6.1.99",
		"6.1.85+":                            "6.1.85+",
	} {
		assert.Equalf(t, want, ParseRelease(release).WithoutFlavour(), "%s", release)
	}
}

// TestRPMHeaders: % stands for the release, # for the release without its flavour.
func TestRPMHeaders(t *testing.T) {
	t.Parallel()
	const devel, image, dir, modules = "kernel-devel-uname-r = %", "kernel-uname-r = %", "usr/src/kernels/%", "kernel-modules-% kernel-modules-extra-%"
	for _, tt := range []struct{ system, release, headers, images, dir, modules, vers, extra string }{
		{"centos7", "3.10.0-1160.119.1.el7.x86_64", devel, image, dir, "", "7", "C7.9.2009-base C7.9.2009-updates"},
		{
			"rhel8", "4.18.0-477.10.1.el8_8.x86_64", devel, image, dir, modules, "8.8 8",
			"rhel-8-for-x86_64-baseos-eus-rpms rhel-8-for-x86_64-appstream-eus-rpms",
		},
		{
			"rocky8", "4.18.0-553.16.1.rt7.357.el8_10.x86_64", "(kernel-devel-uname-r = % or kernel-rt-devel-uname-r = %)",
			"kernel-uname-r = % kernel-rt-uname-r = %", dir, "kernel-rt-modules-% kernel-rt-modules-extra-%", "8.10 8", "",
		},
		{
			"rocky9", "5.14.0-427.13.1.el9_4.aarch64+64k", devel, "kernel-uname-r = % kernel-64k-uname-r = %", dir,
			"kernel-64k-modules-# kernel-64k-modules-extra-#", "9.4 9", "",
		},
		{"rhel9", "5.14.0-427.el9.x86_64", devel, image, dir, modules, "9", ""},
		{"rocky9", "4.18.0-477.10.1.el8_8.x86_64", devel, image, dir, modules, "", ""},
		{
			"ol8", "5.15.0-206.153.7.el8uek.x86_64", "kernel-uek-devel-uname-r = %",
			"kernel-uname-r = % kernel-uek-uname-r = %", dir, "kernel-uek-modules-% kernel-uek-modules-extra-%", "8", "",
		},
		{"ol9", "5.14.0-162.6.1.el9_1.x86_64", devel, image, dir, modules, "9.1 9", ""},
		{"amzn2", "4.14.355-275.570.amzn2.x86_64", devel, image, dir, "", "2", ""},
		{"amzn2", "5.10.226-214.880.amzn2.x86_64", devel, image, dir, "", "2", "amzn2extra-kernel-5.10"},
		{"amzn2023", "6.1.112-122.189.amzn2023.x86_64", devel, image, dir, "kernel-modules-extra-%", "latest", ""},
		{"amzn2023", "6.12.29-33.102.amzn2023.x86_64", devel, image, dir, "kernel6.12-modules-extra-%", "latest", ""},
		{"fedora44", "7.2.7-200.fc44.x86_64", devel, image, dir, modules, "44", ""},
		{
			"sles15.6", "6.4.0-150600.23.25-default", "kernel-default-devel = #", "kernel-default = #",
			"usr/src/linux-#-obj/x86_64/default usr/src/linux-#-obj/aarch64/default",
			"kernel-default=# kernel-default-optional=#", "15.6", "",
		},
		{
			"opensuse-leap15.6", "6.4.0-150600.23.25-64kb", "kernel-64kb-devel = #", "kernel-64kb = #",
			"usr/src/linux-#-obj/x86_64/64kb usr/src/linux-#-obj/aarch64/64kb", "kernel-64kb=# kernel-64kb-optional=#", "15.6",
			"",
		},
		{
			"sles15.3", "5.3.18-57-default", "kernel-default-devel = #", "kernel-default = #",
			"usr/src/linux-#-obj/x86_64/default usr/src/linux-#-obj/aarch64/default",
			"kernel-default=# kernel-default-optional=#", "", "",
		},
		{"centos9", "5.14.0-570.el9.x86_64", devel, image, dir, modules, "9", ""},
		{ // 862 is the build of CentOS 7.5 too
			"centos9", "5.14.0-862.el9.aarch64+64k", devel, "kernel-uname-r = % kernel-64k-uname-r = %", dir,
			"kernel-64k-modules-# kernel-64k-modules-extra-#", "9", "",
		},
		{
			"centos10", "6.12.0-55.el10.x86_64+rt", devel, "kernel-uname-r = % kernel-rt-uname-r = %", dir,
			"kernel-rt-modules-# kernel-rt-modules-extra-#", "10", "",
		},
		{
			"azurelinux3.0", "6.6.64.2-7.azl3", "(kernel-devel = % or kernel-hwe-devel = %)", "kernel = % kernel-hwe = %",
			"usr/src/linux-headers-%", "kernel-drivers-gpu-%", "3.0", "",
		},
		{"azurelinux3.0", "6.6.64", "", "", "", "", "", ""},
		{"azurelinux3.0", "6.6.64.2-7.azl3 or bash", "", "", "", "", "", ""},
		{"azurelinux3.0", "6.6.64.2-7/../x", "", "", "", "", "", ""},
		{"rhel9", "", "", "", "", "", "", ""},
		{"rhel9", "5.14.0 or bash", "", "", "", "", "", ""},
		{"rhel9", "../../etc", "", "", "", "", "", ""},
		{"rhel9", "5.14.0/../../etc", "", "", "", "", "", ""},
		{"rhel9", "5" + strings.Repeat("1", 64), "", "", "", "", "", ""},
		{"rhel9", "5.14.0-site1", devel, "kernel-uname-r = % kernel-site1-uname-r = %", dir, "", "", ""},
		{"sles15.6", "6.4.0", "", "", "", "", "", ""},
		{"sles15.6", "6.4.0-default", "", "", "", "", "", ""},
	} {
		d := lookup(t, tt.system)
		plain, _, _ := strings.Cut(strings.NewReplacer("-default", "+", "-64kb", "+").Replace(tt.release), "+")
		for _, want := range []*string{&tt.headers, &tt.images, &tt.dir, &tt.modules} {
			*want = strings.NewReplacer("%", tt.release, "#", plain).Replace(*want)
		}
		got := tt
		join := func(s []string) string { return strings.Join(s, " ") }
		got.headers, got.images, got.dir = join(d.Headers(tt.release)), join(d.KernelImages(tt.release)), join(d.BuildDirs(tt.release))
		got.modules, got.vers, got.extra = join(d.ModulePackages(tt.release)), join(d.ReleaseVers(tt.release)), join(d.ExtraRepositories(tt.release, "amd64"))
		assert.Equalf(t, tt, got, "%s %s", tt.system, tt.release)
	}
}

func TestKernelOfProvide(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ system, name, version, own, release, flavour string }{
		{"centos7", "kernel-devel-uname-r", "3.10.0-1160.119.1.el7.x86_64", "3.10.0-1160.119.1.el7", "3.10.0-1160.119.1.el7.x86_64", ""},
		{"centos7", "kernel-devel-uname-r", "3.10.0-1160.119.1.el7.x86_64.debug", "3.10.0-1160.119.1.el7", "3.10.0-1160.119.1.el7.x86_64.debug", "debug"},
		{"rocky9", "kernel-devel-uname-r", "5.14.0-427.13.1.el9_4.x86_64+rt", "5.14.0-427.13.1.el9_4", "5.14.0-427.13.1.el9_4.x86_64+rt", "rt"},
		{"rocky9", "kernel-rt-devel-uname-r", "4.18.0-553.16.1.rt7.357.el8_10.x86_64", "4.18.0-553.16.1.rt7.357.el8_10", "4.18.0-553.16.1.rt7.357.el8_10.x86_64", "rt"},
		{"rocky9", "kernel-uek-devel-uname-r", "5.15.0-206.153.7.el9uek.x86_64", "5.15.0-206.153.7.el9uek", "", ""},
		{"ol9", "kernel-uek-devel-uname-r", "5.15.0-206.153.7.el9uek.x86_64", "5.15.0-206.153.7.el9uek", "5.15.0-206.153.7.el9uek.x86_64", "uek"},
		{"rocky9", "kernel-devel", "5.14.0-427.13.1.el9_4", "5.14.0-427.13.1.el9_4", "", ""},
		{"rocky9", "kernel-devel-uname-r", "", "5.14.0-427.13.1.el9_4", "", ""},
		{"rocky9", "kernel-devel-uname-r", "5.14.0 x", "5.14.0-427.13.1.el9_4", "", ""},
		{"sles15.6", "kernel-default-devel", "6.4.0-150600.23.25", "6.4.0-150600.23.25.1", "6.4.0-150600.23.25-default", "default"},
		{"sles15.6", "kernel-default-devel", "6.4.0-150600.23.25.1", "6.4.0-150600.23.25.1", "", ""},
		{"sles15.6", "kernel-azure-devel", "6.4.0-150600.8.17", "6.4.0-150600.8.17.2", "6.4.0-150600.8.17-azure", "azure"},
		{"sles15.6", "kernel-64kb-devel", "6.4.0-150600.23.25", "6.4.0-150600.23.25.1", "6.4.0-150600.23.25-64kb", "64kb"},
		{"sles16.0", "kernel-default-devel", "6.12.0-160000.27", "6.12.0-160000.27.1", "6.12.0-160000.27-default", "default"},
		{"centos9", "kernel-devel-uname-r", "5.14.0-570.el9.x86_64+rt", "5.14.0-570.el9", "5.14.0-570.el9.x86_64+rt", "rt"},
		{"azurelinux3.0", "kernel-devel", "6.6.64.2-7.azl3", "6.6.64.2-7.azl3", "6.6.64.2-7.azl3", ""},
		{"azurelinux3.0", "kernel-hwe-devel", "6.18.31.1-1.azl3", "6.18.31.1-1.azl3", "6.18.31.1-1.azl3", ""},
		{"azurelinux3.0", "kernel-64k-devel", "6.6.64.2-7.azl3", "6.6.64.2-7.azl3", "", ""},
		{"azurelinux3.0", "kernel-devel(x86-64)", "6.6.64.2-7.azl3", "6.6.64.2-7.azl3", "", ""},
		{"azurelinux3.0", "kernel-devel", "6.6.64", "6.6.64", "", ""},
		{"sles15.6", "kernel-devel", "6.4.0-150600.23.25", "6.4.0-150600.23.25.1", "", ""},
		{"sles15.6", "kernel-default-devel(x86-64)", "6.4.0-150600.23.25.1", "6.4.0-150600.23.25.1", "", ""},
	} {
		d := lookup(t, tt.system)
		release, flavour, ok := d.KernelOfProvide(tt.name, tt.version, tt.own)
		if release != tt.release || flavour != tt.flavour || ok != (tt.release != "") {
			t.Errorf("%s: %s = %s: %q, %q, %v", tt.system, tt.name, tt.version, release, flavour, ok)
		}
		if _, _, ok := d.KernelOf("linux-headers-6.1.0-38-amd64"); ok {
			t.Errorf("%s: KernelOf is ok", tt.system)
		}
	}
}

func TestRPMKernelNames(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ system, defaultFlavour, flavour, meta string }{
		{"centos7", "", "", "kernel-devel"},
		{"rhel9", "", "rt", "kernel-rt-devel"},
		{"centos10", "", "", "kernel-devel"},
		{"azurelinux3.0", "", "", "kernel-devel"},
		{"sles16.0", "default", "default", "kernel-default-devel"},
		{"ol9", "uek", "uek", "kernel-uek-devel"},
		{"ol9", "uek", "uek64k", "kernel-uek64k-devel"},
		{"sles15.6", "default", "default", "kernel-default-devel"},
		{"opensuse-leap15.6", "default", "azure", "kernel-azure-devel"},
	} {
		d := lookup(t, tt.system)
		if d.KernelFlavour("amd64") != tt.defaultFlavour || d.KernelFlavour("sparc") != "" || d.KernelMeta(tt.flavour) != tt.meta {
			t.Errorf("%s: %q, %q, %q", tt.system, d.KernelFlavour("amd64"), d.KernelFlavour("sparc"), d.KernelMeta(tt.flavour))
		}
	}
	assert.Same(t, []string{"opt/rh/gcc-toolset-11/root/usr/bin"}, lookup(t, "ol8").CompilerDirs())
}

func TestFlatcar(t *testing.T) {
	t.Parallel()
	d := require.Value(FromIDs("flatcar", "4081.2.0"))(t)
	if d.ID() != "flatcar" || Userland(d).ID() != "debian13" || d.PackageManager() != "" || d.Headers("6.6.54-flatcar") != nil ||
		d.KernelFlavour("amd64") != "flatcar" || d.KernelFlavour("sparc") != "" || d.KernelImages("6.6.54-flatcar") != nil || d.KernelMeta("flatcar") != "" ||
		d.ModulePackages("6.6.54-flatcar") != nil {
		t.Errorf("%+v", d)
	}
	if _, _, ok := d.KernelOf("linux-headers-6.1.0-38-amd64"); ok {
		t.Error("KernelOf is ok")
	}
	assert.Same(t, []string{"usr/lib/modules/6.6.54-flatcar/build"}, d.BuildDirs("6.6.54-flatcar"))
	for _, bad := range []string{"", "6/../../etc", "6..", "x"} {
		assert.Equalf(t, 0, len(d.BuildDirs(bad)), "BuildDirs(%q)", bad)
	}
}

// TestKernelParts: % stands for the release.
func TestKernelParts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ system, release, want string }{
		{"debian12", "6.1.0-57-amd64", "linux-binary-% linux-modules-% linux-modules-extra-%"},
		{"ubuntu24.04", "6.8.0-31-generic", "linux-binary-% linux-modules-% linux-modules-extra-%"},
		{"centos7", "3.10.0-1160.119.1.el7.x86_64", ""},
		{"rocky8", "4.18.0-553.el8_10.x86_64", "kernel-modules-core-uname-r = % kernel-modules-uname-r = %"},
		{"rocky9", "5.14.0-570.el9_6.x86_64+rt", "kernel-rt-modules-core-uname-r = % kernel-rt-modules-uname-r = %"},
		{"ol9", "6.12.0-103.40.4.4.el9uek.x86_64", "kernel-uek-modules-core-uname-r = % kernel-uek-modules-uname-r = %"},
		{"amzn2", "5.10.234-225.910.amzn2.x86_64", ""},
		{"sles15.6", "6.4.0-150600.23.25-default", ""},
		{"azurelinux3.0", "6.6.96.2-2.azl3", "kernel-drivers-gpu = %"},
		{"flatcar", "6.6.54-flatcar", ""},
		{"debian12", "x y", ""},
		{"rocky9", "x y", ""},
	} {
		got := strings.Join(require.Value(Lookup(tt.system))(t).KernelParts(tt.release), " ")
		assert.Equalf(t, strings.ReplaceAll(tt.want, "%", tt.release), got, "%s %s", tt.system, tt.release)
	}
}

func TestDebModulePackages(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{"ubuntu24.04": "linux-modules-extra-6.8.0-31-generic", "debian12": ""} {
		d := require.Value(Lookup(id))(t)
		assert.Equalf(t, want, strings.Join(d.ModulePackages("6.8.0-31-generic"), " "), "%s", id)
		if d.ModulePackages("x y") != nil || d.BuildDirs("x y") != nil || d.BuildDirs("6.8.0-31-generic")[0] != "usr/src/linux-headers-6.8.0-31-generic" {
			t.Errorf("%s: %q", id, d.BuildDirs("6.8.0-31-generic"))
		}
	}
}
