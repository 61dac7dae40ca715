package realrepo

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/require"
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

// version splits the release: "6.1.0" and 56. Debian's name has one hyphen more than rpm allows in a version.
func (h Headers) version(t testing.TB) (version string, number int) {
	t.Helper()
	parts := strings.Split(cmp.Or(h.Release, "6.1.0-9-amd64"), "-")
	return parts[0], require.Value(strconv.Atoi(parts[1]))(t)
}

// uname returns the release of a kernel whose package has this version and release: "6.1.0-56.el9_4.x86_64"
// in rocky9, "6.1.0-150600.56-default" in opensuse-leap15.6. flavour is "" or, as in RHEL, "rt".
func (s system) uname(version, release, flavour string) string {
	if s.suse {
		return version + "-" + release + "-" + cmp.Or(flavour, "default")
	}
	if flavour != "" {
		flavour = "+" + flavour
	}
	return version + "-" + release + ".x86_64" + flavour
}

// kernels returns the packages of the newest kernel's headers, and of two kernels whose headers are the file
// with their release: an older one, and one of another flavour.
func (s system) kernels(t testing.TB, h Headers) []Package {
	t.Helper()
	version, number := h.version(t)
	release, flavour := fmt.Sprintf(s.build, number), "rt"
	if s.suse {
		flavour = "azure"
	}
	newest, place := s.devel(version, release, "")
	if h.Root != "" {
		newest.Tree, newest.Files = t.TempDir(), nil
		h.merge(t, filepath.Join(newest.Tree, place), s.uname(version, release, ""))
	}
	older, _ := s.devel(version, fmt.Sprintf(s.build, number-1), "")
	other, _ := s.devel(version, release, flavour)
	return []Package{newest, older, other}
}

// devel returns the package of a kernel's headers, and their folder.
func (s system) devel(version, release, flavour string) (p Package, place string) {
	uname := s.uname(version, release, flavour)
	p = Package{Name: "kernel-devel", Version: version + "-" + release, Payload: s.payload}
	p.Requires = []string{"/usr/bin/bash", "make", "findutils"}
	if s.suse {
		name := cmp.Or(flavour, "default")
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
func (h Headers) merge(t testing.TB, tree, uname string) {
	t.Helper()
	tool.Must(t, "sh", "-ec", mergeScript, "sh", h.Root, testfile.Write(t, tree+"/", ""), h.Release, uname)
}
