package rpmrepo

import (
	"encoding/binary"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rpmdb "github.com/knqyf263/go-rpmdb/pkg"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

func TestPlaces(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"./lib/x86_64-linux-gnu/libc.so.6": "lib64/libc.so.6", "./usr/lib/x86_64-linux-gnu/libz.so": "usr/lib64/libz.so", "./bin/bash": "usr/bin/bash",
		"./sbin/modprobe": "usr/sbin/modprobe", "./sbin/ldconfig": "sbin/ldconfig", "./lib/modprobe.d/x.conf": "usr/lib/modprobe.d/x.conf",
		"./usr/include/x86_64-linux-gnu/asm/a.h": "usr/include/asm/a.h", "./usr/share/man/man1/gcc.1.gz": "", "./lib64/ld-linux-x86-64.so.2": "",
		"./usr/lib/gcc/x86_64-linux-gnu/12/cc1": "usr/lib/gcc/x86_64-linux-gnu/12/cc1", "./usr/lib/gcc/x86_64-linux-gnu/12/lto1": "",
		"./usr/share/doc/gcc-12/copyright": "usr/share/licenses/gcc/gcc-12.txt", "./usr/share/doc/gcc-12/changelog.gz": "",
	} {
		assert.Equalf(t, want, placeOf(name, "gcc"), "placeOf(%q)", name)
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	for debian, want := range map[string][3]string{
		"12.2.0-14+deb12u1": {"", "12.2.0", "14.deb12u1.el9"}, "1:1.2.13.dfsg-1": {"1", "1.2.13.dfsg", "1.el9"}, "3.0.17-1~deb12u2": {"", "3.0.17", "1~deb12u2.el9"},
		"2.1-3-4": {"", "2.1.3", "4.el9"}, "7": {"", "7", "1.el9"},
	} {
		var got [3]string
		got[0], got[1], got[2] = versionOf(debian, ".el9")
		assert.Equalf(t, want, got, "versionOf(%q)", debian)
	}
}

func TestReleases(t *testing.T) {
	t.Parallel()
	k := Kernel{Release: "6.1.0-56-amd64"}
	for id, want := range map[string]string{
		"rocky9": "6.1.0-56.el9_4.x86_64", "rocky8": "6.1.0-56.el8_10.x86_64", "centos7": "6.1.0-56.el7.x86_64",
		"amzn2023": "6.1.0-56.amzn2023.x86_64", "opensuse-leap15.6": "6.1.0-150600.56-default",
	} {
		assert.Equalf(t, want, require.Value(k.ReleaseIn(id))(t), "ReleaseIn(%q)", id)
	}
	if !slices.Contains(Systems(), "rocky9") {
		t.Errorf("Systems() = %v", Systems())
	}
	assert.Errorf(t, assert.Err(k.ReleaseIn("beos5")), "an unknown system has a kernel")
	assert.Errorf(t, assert.Err((Kernel{Release: "6.1.0-56.el9.x86_64"}).ReleaseIn("rocky9")), "a kernel that is not Debian's was taken")
}

// The catalogue is complete: it has every package that another one needs by name, and no two packages have
// one name.
func TestCatalogue(t *testing.T) {
	t.Parallel()
	for _, sys := range systems() {
		names := map[string]bool{"filesystem": true}
		for _, s := range catalogue() {
			name := s.nameIn(sys)
			if names[name] {
				t.Errorf("%s has two packages %s", sys.id, name)
			}
			names[name], names[s.name] = true, true
		}
		for _, s := range catalogue() {
			for _, need := range s.needs {
				name, _, _ := strings.Cut(need, " ")
				if !strings.HasPrefix(name, "/") && !strings.HasPrefix(name, "(") && !names[name] {
					t.Errorf("%s: %s needs %s, which is not there", sys.id, s.name, need)
				}
			}
		}
	}
}

// A library of another project finds the packages of a database in SUSE's format.
func TestNDB(t *testing.T) {
	t.Parallel()
	var records []record
	for n := range 600 { // more than fit in one page of slots
		records = append(records, record{uint32(n + 1), header("package-" + strings.Repeat("x", n%40))})
	}
	file := filepath.Join(t.TempDir(), "Packages.db")
	require.NoError(t, os.WriteFile(file, ndbOf(records), 0o600))
	db := require.Value(rpmdb.Open(file))(t)
	defer db.Close() //nolint:errcheck // read only
	list, err := db.ListPackages()
	if err != nil || len(list) != len(records) || list[599].Name != "package-"+strings.Repeat("x", 599%40) {
		t.Errorf("%d packages, %v", len(list), err)
	}
}

// header returns a header of rpm's, with a name, a version and a release.
func header(name string) []byte {
	be := binary.BigEndian
	var index, data []byte
	texts := []string{name, "1", "2"}
	for i, text := range texts {
		for _, v := range []uint32{1000 + uint32(i), 6, uint32(len(data)), 1} {
			index = be.AppendUint32(index, v)
		}
		data = append(append(data, text...), 0)
	}
	return slices.Concat(be.AppendUint32(nil, uint32(len(texts))), be.AppendUint32(nil, uint32(len(data))), index, data)
}

func TestServe(t *testing.T) {
	t.Parallel()
	www := t.TempDir()
	require.NoError(t, WriteFile(filepath.Join(www, "a.example", "repo", "x"), "text"))
	for url, want := range map[string]int{
		"http://a.example/repo/x": 200, "http://a.example:80/repo/x": 200, "http://b.example/repo/x": 404, "http://a.example/../../etc/passwd": 404, "http://../repo/x": 404,
	} {
		r := httptest.NewRequest(http.MethodGet, "http://a.example/repo/x", http.NoBody)
		host, path, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
		r.Host, r.URL.Path = host, "/"+path
		w := httptest.NewRecorder()
		Serve(www).ServeHTTP(w, r)
		if w.Code != want && (want != 404 || w.Code < 400) {
			t.Errorf("%s: %d, want %d", url, w.Code, want)
		}
	}
}
