package osrelease

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/distros"
)

func TestSystem(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, file, text string
		want, err        string
	}{
		{"debian", "etc/os-release", "NAME=\"Debian GNU/Linux\"\nVERSION_ID=\"12\"\nVERSION_CODENAME=bookworm\nID=debian\n", "debian12", ""},
		{"ubuntu", "etc/os-release", "VERSION_ID='22.04'\nID=ubuntu\nID_LIKE=debian\n", "ubuntu22.04", ""},
		{"only in usr", "usr/lib/os-release", "ID=debian\nVERSION_ID=11", "debian11", ""},
		{"the last one counts", "etc/os-release", "ID=plan9\nID=debian\nVERSION_ID=13\n", "debian13", ""},
		{"ubuntu 26.04", "etc/os-release", "ID=ubuntu\nVERSION_ID=\"26.04\"\n", "ubuntu26.04", ""},
		{"a minor version of rocky", "etc/os-release", "NAME=\"Rocky Linux\"\nID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=\"9.4\"\n", "rocky9", ""},
		{"rhel 10", "etc/os-release", "ID=\"rhel\"\nVERSION_ID=\"10.0\"\n", "rhel10", ""},
		{"almalinux", "etc/os-release", "ID=\"almalinux\"\nVERSION_ID=\"8.10\"\n", "almalinux8", ""},
		{"oracle", "etc/os-release", "ID=\"ol\"\nVERSION_ID=\"8.10\"\n", "ol8", ""},
		{"centos", "etc/os-release", "ID=\"centos\"\nID_LIKE=\"rhel fedora\"\nVERSION_ID=\"7\"\n", "centos7", ""},
		{"centos stream", "etc/os-release", "NAME=\"CentOS Stream\"\nID=\"centos\"\nID_LIKE=\"rhel fedora\"\nVERSION_ID=\"9\"\n", "centos9", ""},
		{"azure", "etc/os-release", "NAME=\"Microsoft Azure Linux\"\nVERSION=\"3.0.20250102\"\nID=azurelinux\nVERSION_ID=\"3.0\"\n", "azurelinux3.0", ""},
		{"leap 16", "etc/os-release", "NAME=\"openSUSE Leap\"\nVERSION=\"16.0\"\nID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\nVERSION_ID=\"16.0\"\n", "opensuse-leap16.0", ""},
		{"okd", "etc/os-release", "NAME=\"CentOS Stream CoreOS\"\nID=\"scos\"\nVERSION_ID=\"4.12\"\n", "", `unknown operating system "scos4.12"`},
		{"amazon", "etc/os-release", "ID=\"amzn\"\nVERSION_ID=\"2\"\n", "amzn2", ""},
		{"amazon 2023", "etc/os-release", "ID=\"amzn\"\nVERSION_ID=\"2023\"\n", "amzn2023", ""},
		{"fedora", "etc/os-release", "ID=fedora\nVERSION_ID=44\n", "fedora44", ""},
		{"sles", "etc/os-release", "ID=\"sles\"\nVERSION=\"15-SP6\"\nVERSION_ID=\"15.6\"\n", "sles15.6", ""},
		{"leap", "etc/os-release", "ID=\"opensuse-leap\"\nVERSION_ID=\"15.6\"\n", "opensuse-leap15.6", ""},
		{"flatcar", "etc/os-release", "ID=flatcar\nVERSION_ID=4081.2.0\n", "flatcar", ""},
		{"garden linux", "etc/os-release", "ID=gardenlinux\nNAME=\"Garden Linux\"\nPRETTY_NAME=\"Garden Linux 1877.14\"\nGARDENLINUX_CNAME=aws-gardener_prod-amd64-1877.14\nGARDENLINUX_VERSION=1877.14\n", "gardenlinux1877", ""},
		{"garden linux with three numbers", "etc/os-release", "ID=gardenlinux\nIMAGE_VERSION=2150.3.0\nGARDENLINUX_VERSION=2150.3.0\n", "gardenlinux2150", ""},
		{"no release of garden linux", "etc/os-release", "ID=gardenlinux\nGARDENLINUX_VERSION=1877x\n", "", "did you mean gardenlinux1877"},
		{"the version of another system", "etc/os-release", "ID=debian\nGARDENLINUX_VERSION=12\n", "", `unknown operating system "debian"`},
		{"no minor version of sles", "etc/os-release", "ID=sles\nVERSION_ID=15.66\n", "", "did you mean sles15.6"},
		{"rocky 99", "etc/os-release", "ID=rocky\nVERSION_ID=99.1\n", "", "rocky9"},
		{"testing has no version", "etc/os-release", "ID=debian\n", "", `unknown operating system "debian"`},
		{"derivative", "etc/os-release", "ID=linuxmint\nVERSION_ID=21\nID_LIKE=ubuntu\n", "", `unknown operating system "linuxmint21"`},
		{"near", "etc/os-release", "ID=ubuntu\nVERSION_ID=22.10\n", "", "did you mean ubuntu22.04"},
		{"empty", "etc/os-release", "", "", "no line ID="},
		{"none", "etc/hostname", "x", "", "neither etc/os-release nor usr/lib/os-release"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d, err := System(fstest.MapFS{test.file: {Data: []byte(test.text)}})
			if test.err != "" {
				if d != nil || err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("got %v, %v; want an error with %q", d, err, test.err)
				}
				if test.name == "none" && !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%v is no fs.ErrNotExist", err)
				}
				return
			}
			if err != nil || d.ID() != test.want {
				t.Fatalf("got %v, %v; want %s", d, err, test.want)
			}
		})
	}
}

func FuzzSystem(f *testing.F) {
	f.Add("ID=debian\nVERSION_ID=\"12\"\n")
	f.Add("ID='")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := System(fstest.MapFS{"etc/os-release": {Data: []byte(text)}})
		if (d == nil) == (err == nil) {
			t.Fatalf("%v, %v", d, err)
		}
	})
}

func TestTag(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ id, version, want string }{
		{"rhel", "9.4", "rhel9"}, {"rocky", "9.4", "rocky9"}, {"ol", "8.10", "ol8"}, {"almalinux", "9.4", "almalinux9.4"}, {"ubuntu", "24.04", "ubuntu24.04"},
		{"debian", "12", "debian12"}, {"amzn", "2023", "amzn2023"}, {"sles", "15.6", "sles15.6"}, {"opensuse-leap", "15.6", "opensuse-leap15.6"},
		{"flatcar", "4081.2.0", "flatcar4081.2.0"}, {"rhcos", "4.18", "rhcos4.18"}, {"centos", "7", "centos7"},
		{"centos", "10", "centos10"}, {"scos", "4.18", "scos4.18"}, {"azurelinux", "3.0", "azurelinux3.0"}, {"sles", "16.0", "sles16.0"},
	} {
		assert.Equalf(t, tt.want, Tag(tt.id, tt.version), "Tag(%q, %q)", tt.id, tt.version)
	}
}

// TestParseImage has PRETTY_NAME of real systems, and what their os-release has as ID and VERSION_ID.
func TestParseImage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, id, version, system string }{
		{"Ubuntu 22.04.4 LTS", "ubuntu", "22.04", "ubuntu22.04"},
		{"Ubuntu 24.04 LTS", "ubuntu", "24.04", "ubuntu24.04"},
		{"Ubuntu 16.04.7 LTS", "ubuntu", "16.04", "ubuntu16.04"},
		{"Ubuntu Core 22", "ubuntu-core", "22", ""},
		{"Ubuntu Noble Numbat (development branch)", "ubuntu", "", ""},
		{"Debian GNU/Linux 12 (bookworm)", "debian", "12", "debian12"},
		{"Debian GNU/Linux trixie/sid", "debian", "", ""},
		{"Rocky Linux 9.4 (Blue Onyx)", "rocky", "9.4", "rocky9"},
		{"AlmaLinux 9.4 (Seafoam Ocelot)", "almalinux", "9.4", "almalinux9"},
		{"Red Hat Enterprise Linux 9.4 (Plow)", "rhel", "9.4", "rhel9"},
		{"Red Hat Enterprise Linux 8.10 (Ootpa)", "rhel", "8.10", "rhel8"},
		{"Red Hat Enterprise Linux Server 7.9 (Maipo)", "rhel", "7.9", ""},
		{"Red Hat Enterprise Linux CoreOS 415.92.202402201450-0 (Plow)", "rhcos", "4.15", ""},
		{"Red Hat Enterprise Linux CoreOS 47.84.202102161611-0 (Ootpa)", "rhcos", "4.7", ""},
		{"Red Hat Enterprise Linux CoreOS 9.6.20250530-0 (Plow)", "rhcos", "9.6", ""},
		{"Red Hat Enterprise Linux CoreOS 10.0.20251001-0 (Coughlan)", "rhcos", "10.0", ""},
		{"Oracle Linux Server 9.4", "ol", "9.4", "ol9"},
		{"CentOS Linux 7 (Core)", "centos", "7", "centos7"},
		{"CentOS Stream 9", "centos", "9", "centos9"},
		{"CentOS Stream CoreOS 412.9.202211241749-0", "scos", "4.12", ""},
		{"CentOS Stream CoreOS 10.0.20250510-0", "centos", "10", "centos10"},
		{"Amazon Linux 2", "amzn", "2", "amzn2"},
		{"Amazon Linux 2023", "amzn", "2023", "amzn2023"},
		{"Amazon Linux 2023.6.20241121", "amzn", "2023", "amzn2023"},
		{"Fedora Linux 43 (Server Edition)", "fedora", "43", "fedora43"},
		{"Fedora CoreOS 41.20250130.3.0", "fedora", "41", ""},
		{"SUSE Linux Enterprise Server 15 SP6", "sles", "15.6", "sles15.6"},
		{"SUSE Linux Enterprise Server 16.0", "sles", "16.0", "sles16.0"},
		{"SUSE Linux Enterprise Micro 5.5", "sle-micro", "5.5", ""},
		{"openSUSE Leap 15.6", "opensuse-leap", "15.6", "opensuse-leap15.6"},
		{"openSUSE Leap Micro 6.0", "opensuse-leap-micro", "6.0", ""},
		{"openSUSE MicroOS", "opensuse-microos", "", ""},
		{"Harvester v1.4.1", "harvester", "", ""},
		{"Harvester master", "harvester", "", ""},
		{"Flatcar Container Linux by Kinvolk 4081.2.0 (Oklo)", "flatcar", "4081.2.0", "flatcar"},
		{"Container-Optimized OS from Google", "cos", "", ""},
		{"Talos (v1.8.0)", "talos", "1.8.0", ""},
		{"Bottlerocket OS 1.20.3 (aws-k8s-1.30-nvidia)", "bottlerocket", "1.20.3", ""},
		{"Bottlerocket (EKS Auto) 2025.3.14 (aws-k8s-1.30)", "eks-auto", "", ""},
		{"Bottlerocket (EKS Auto, Nvidia) 2026.4.23 (aws-k8s-1.34-nvidia)", "eks-auto", "", ""},
		{"Microsoft Azure Linux 3.0", "azurelinux", "3.0", "azurelinux3.0"},
		{"CBL-Mariner/Linux", "mariner", "", ""},
		{"Alibaba Cloud Linux 3.2104 U12 (OpenAnolis Edition)", "alinux", "3", ""},
		{"TencentOS Server 3.1 (Final)", "tencentos", "3.1", ""},
		{"VMware Photon OS/Linux", "photon", "", ""},
		{"openEuler 22.03 (LTS-SP2)", "openEuler", "22.03", ""},
		{"Kylin Linux Advanced Server V10 (Lance)", "kylin", "V10", ""},
		{"Windows Server 2022 Datacenter", "windows", "", ""},
	} {
		id, version, ok := ParseImage(c.text)
		assert.Equalf(t, true, ok, "%s is known", c.text)
		assert.Equalf(t, c.id+" "+c.version, id+" "+version, "%s", c.text)
		got := ""
		if d, err := distros.FromIDs(id, version); err == nil {
			got = d.ID()
		}
		assert.Equalf(t, c.system, got, "the system of %s", c.text)
	}
	for _, text := range []string{"", "ubuntu 22.04", " Ubuntu 22.04", "Ubuntuu 22.04", "Haiku R1", "Debian", "\x00"} {
		id, version, ok := ParseImage(text)
		if ok {
			t.Errorf("%q is %s %s", text, id, version)
		}
	}
}

func TestHint(t *testing.T) {
	t.Parallel()
	assert.Contains(t, Hint("AlmaLinux 10.1 (Heliotrope Lion)", "6.12.0-124.8.1.el10_1.x86_64_v2"), "linux/amd64/v2")
	assert.Equal(t, "", Hint("AlmaLinux 10.1 (Heliotrope Lion)", "6.12.0-124.8.1.el10_1.x86_64"))
	assert.Contains(t, Hint("Fedora CoreOS 44.20260501.3.0", "7.0.4-200.fc44.x86_64"), "fedora-repos-archive")
	for id, near := range map[string]string{"sles": "sles16.0", "opensuse-leap": "opensuse-leap16.0"} {
		assert.Contains(t, Advice(id, "16.1"), near+" is near: add aliases: ["+id+"16.1]")
	}
}

// TestAdvice: the row that is named as near exists, and is none of the system itself.
func TestAdvice(t *testing.T) {
	t.Parallel()
	for _, u := range unserved {
		_, err := distros.Lookup(u.near)
		assert.NoErrorf(t, err, "near %s %s", u.id, u.version)
		assert.Containsf(t, Advice(u.id, u.version+"9"), u.near+" is near: add aliases: ["+u.id, "%s %s", u.id, u.version)
		assert.Equalf(t, "", OwnWay(u.id), "%s has a way of its own", u.id)
	}
	assert.Containsf(t, Advice("haiku", "1"), "driver-build list", "a system that is not known")
}

// TestOwnWays: systems with a way of their own are none that images are made for.
func TestOwnWays(t *testing.T) {
	t.Parallel()
	for id := range ownWays {
		for _, d := range distros.All() {
			family, _ := d.OSRelease()
			assert.Equalf(t, false, family == id, "%s is a system that images are made for", id)
		}
	}
	for names, id := range variants {
		if OwnWay(id) == "" || Variant(names[0], names[1]) != id {
			t.Errorf("Variant(%q) = %q, which has no way of its own", names, Variant(names[0], names[1]))
		}
	}
	assert.Equalf(t, "", OwnWay("debian"), "Debian")
	assert.Equalf(t, "fedora", Variant("fedora", "coreos"), "Fedora CoreOS, which Fedora's images serve")
	assert.Equalf(t, "rhel", Variant("rhel", ""), "RHEL")
}
