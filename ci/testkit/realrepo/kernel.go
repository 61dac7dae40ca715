package realrepo

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// Headers are those of a Debian kernel, from which systems get those of their newest kernel.
type Headers struct {
	// Root has the unpacked packages linux-headers-RELEASE, -common and linux-kbuild, like ci/lab's kernels.
	Root string
	// Release is Debian's: "6.1.0-56-amd64".
	Release string
}

var debianRelease = regexp.MustCompile(`^([0-9]+\.[0-9]+\.[0-9]+)-([0-9]+)-amd64$`)

// release is "" if there are no headers.
func (h *Headers) release() string {
	if h == nil {
		return ""
	}
	return h.Release
}

// version splits the release: "6.1.0" and 56. Debian's name has one hyphen more than rpm allows in a version.
func (h *Headers) version(t testing.TB) (version string, number int) {
	t.Helper()
	if h == nil {
		return "6.1.0", 9
	}
	m := debianRelease.FindStringSubmatch(h.Release)
	if m == nil {
		t.Fatalf("%q is no release of a Debian kernel for amd64, such as 6.1.0-56-amd64", h.Release)
	}
	number, _ = strconv.Atoi(m[2])
	return m[1], number
}

// build returns a kernel package's release for a number that counts them.
func (s system) build(number int) string {
	switch {
	case s.suse:
		return strings.TrimPrefix(s.dist, ".") + "." + strconv.Itoa(number)
	case strings.HasPrefix(s.dist, ".el"):
		return strconv.Itoa(number) + s.dist + "_" + s.version[strings.IndexByte(s.version, '.')+1:]
	}
	return strconv.Itoa(number) + s.dist
}

// uname returns the release of a kernel whose package has this version and release: "6.1.0-56.el9_4.x86_64"
// in rocky9, "6.1.0-150600.56-default" in opensuse-leap15.6. flavour is "" or, as in RHEL, "rt".
func (s system) uname(version, release, flavour string) string {
	switch {
	case s.suse && flavour == "":
		return version + "-" + release + "-default"
	case s.suse:
		return version + "-" + release + "-" + flavour
	case flavour != "":
		return version + "-" + release + ".x86_64+" + flavour
	}
	return version + "-" + release + ".x86_64"
}

// kernels returns the packages of the newest kernel's headers, and of two kernels whose headers are the file
// with their release: an older one, and one of another flavour.
func (s system) kernels(t testing.TB, h *Headers) []Package {
	t.Helper()
	version, number := h.version(t)
	flavour := "rt"
	if s.suse {
		flavour = "azure"
	}
	newest, place := s.devel(version, s.build(number), "")
	if h != nil {
		newest.Tree, newest.Files = t.TempDir(), nil
		h.merge(t, filepath.Join(newest.Tree, place), s.uname(version, s.build(number), ""))
	}
	older, _ := s.devel(version, s.build(number-1), "")
	other, _ := s.devel(version, s.build(number), flavour)
	return []Package{newest, older, other}
}

// devel returns the package of a kernel's headers, and their folder.
func (s system) devel(version, release, flavour string) (p Package, place string) {
	uname := s.uname(version, release, flavour)
	p = Package{Name: "kernel-devel", Version: version + "-" + release, Payload: s.payload}
	p.Requires = []string{"/usr/bin/bash", "make", "findutils"}
	if s.suse {
		name := "default"
		if flavour != "" {
			name = flavour
		}
		p.Name, place = "kernel-"+name+"-devel", "/usr/src/linux-"+p.Version+"-obj/x86_64/"+name
		p.Provides = []string{"multiversion(kernel)", p.Name + " = " + p.Version}
		p.Version += ".1" // a rebuild of the same source
	} else {
		place = "/usr/src/kernels/" + uname
		p.Requires = append(p.Requires, "gcc", "elfutils-libelf-devel", "perl-interpreter")
		p.Provides = []string{"installonlypkg(kernel)", "kernel-devel-uname-r = " + uname}
		if flavour != "" {
			p.Name, p.Provides = "kernel-"+flavour+"-devel", append(p.Provides, "kernel-devel = "+p.Version)
		}
	}
	p.Files = []File{{Path: place + "/include/config/kernel.release", Body: uname + "\n"}}
	return p, place
}

// mergeScript makes one tree of Debian's three, as in the family of RHEL. It leaves other architectures, links
// from one tree to another and wrappers of Makefiles out, and the compiler is called gcc, without a version.
const mergeScript = `cd "$1"; tree=$2 release=$3 uname=$4
for from in usr/src/linux-headers-*-common "usr/src/linux-headers-$release" usr/lib/linux-kbuild-*; do
  wrapper=./Makefile
  case $from in *-common) wrapper=;; esac
  (cd "$from" && find . -type f \( ! -path './arch/*/*' -o -path './arch/x86/*' \) ! -path "$wrapper" ! -path ./.kernelvariables |
    tar -c -T -) | tar -x -C "$tree"
done
find "$tree" -regextype posix-extended -regex '.*/(kernel\.release|utsrelease\.h|\.config|auto\.conf|autoconf\.h|compile\.h|vermagic\.h)' \
  -exec sed -i "s/$release/$uname/g; s/gcc-12 (Debian/gcc (Debian/g" {} +`

// merge makes one tree of the headers for a kernel with the release uname.
func (h *Headers) merge(t testing.TB, tree, uname string) {
	t.Helper()
	tool.Must(t, "sh", "-ec", mergeScript, "sh", h.Root, testfile.Write(t, tree+"/", ""), h.Release, uname)
}
