package distros

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
)

func TestFromOSRelease(t *testing.T) {
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
		{"amazon", "etc/os-release", "ID=\"amzn\"\nVERSION_ID=\"2\"\n", "amzn2", ""},
		{"amazon 2023", "etc/os-release", "ID=\"amzn\"\nVERSION_ID=\"2023\"\n", "amzn2023", ""},
		{"fedora", "etc/os-release", "ID=fedora\nVERSION_ID=44\n", "fedora44", ""},
		{"sles", "etc/os-release", "ID=\"sles\"\nVERSION=\"15-SP6\"\nVERSION_ID=\"15.6\"\n", "sles15.6", ""},
		{"leap", "etc/os-release", "ID=\"opensuse-leap\"\nVERSION_ID=\"15.6\"\n", "opensuse-leap15.6", ""},
		{"flatcar", "etc/os-release", "ID=flatcar\nVERSION_ID=4081.2.0\n", "flatcar", ""},
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
			d, err := FromOSRelease(fstest.MapFS{test.file: {Data: []byte(test.text)}})
			if test.err != "" {
				if d != nil || err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("got %v, %v; want an error with %q", d, err, test.err)
				}
				var unknown *UnknownError
				if strings.Contains(test.err, "did you mean") && !errors.As(err, &unknown) {
					t.Errorf("%v is no *UnknownError", err)
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

func osRelease(text string) fs.FS {
	return fstest.MapFS{"etc/os-release": {Data: []byte(text)}}
}

func FuzzFromOSRelease(f *testing.F) {
	f.Add("ID=debian\nVERSION_ID=\"12\"\n")
	f.Add("ID='")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := FromOSRelease(fstest.MapFS{"etc/os-release": {Data: []byte(text)}})
		if (d == nil) == (err == nil) {
			t.Fatalf("%v, %v", d, err)
		}
	})
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	for release, want := range map[string]string{
		"6.1.0-38-amd64":              "linux-headers-6.1.0-38-amd64",
		"6.12.107+deb12-amd64":        "linux-headers-6.12.107+deb12-amd64",
		"6.8.0-31-generic":            "linux-headers-6.8.0-31-generic",
		"5.15.0-1009-aws":             "linux-headers-5.15.0-1009-aws",
		"5.10.1-netflix-12":           "linux-headers-5.10.1-netflix-12",
		"4.15.0~rc1":                  "",
		"":                            "",
		"6.1.0/../../etc":             "",
		"6.1.0 amd64":                 "",
		"6.1.0_Custom":                "",
		"amd64":                       "",
		"-6":                          "",
		"6" + strings.Repeat("1", 64): "",
	} {
		for _, d := range All() {
			if d.PackageManager() != "apt" {
				continue
			}
			if got := strings.Join(d.Headers(release), " "); got != want {
				t.Errorf("%s: Headers(%q) = %q; want %q", d.ID(), release, got, want)
			}
		}
	}
}
