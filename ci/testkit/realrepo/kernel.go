package realrepo

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// Headers are those of a Debian kernel, from which the system gets those of its newest kernel.
type Headers struct {
	// Root has the unpacked packages linux-headers-RELEASE, -common and linux-kbuild, like ci/lab's
	// kernels.
	Root string
	// Release is Debian's: "6.1.0-56-amd64".
	Release string
}

// version splits the release: "6.1.0" and 56. Debian's name has one hyphen more than rpm allows in
// a version.
func (h Headers) version(t testing.TB) (version string, number int) {
	t.Helper()
	parts := strings.Split(h.Release, "-")
	return parts[0], require.Value(strconv.Atoi(parts[1]))(t)
}

// uname returns the release of the newest kernel, "6.1.0-56.el9_4.x86_64".
func (h Headers) uname(t testing.TB) string {
	t.Helper()
	version, number := h.version(t)
	return fmt.Sprintf("%s-%d.el9_4.x86_64", version, number)
}

// kernels returns the packages of the newest kernel's headers, and of two kernels whose headers are
// the file with their release: an older one, and the newest real-time kernel.
func (h Headers) kernels(t testing.TB) []Package {
	t.Helper()
	version, number := h.version(t)
	newest := fmt.Sprintf("%s-%d.el9_4", version, number)
	older := fmt.Sprintf("%s-%d.el9_4", version, number-1)
	devel := func(name, version, uname string) Package {
		return Package{
			Name: name, Version: version,
			Requires: []string{
				"/usr/bin/bash",
				"make",
				"findutils",
				"gcc",
				"elfutils-libelf-devel",
				"perl-interpreter",
			},
			Provides: []string{"installonlypkg(kernel)", "kernel-devel-uname-r = " + uname},
			Files: []File{
				{
					Path: "/usr/src/kernels/" + uname + "/include/config/kernel.release",
					Body: uname + "\n",
				},
			},
		}
	}
	full := devel("kernel-devel", newest, h.uname(t))
	rt := devel("kernel-rt-devel", newest, h.uname(t)+"+rt")
	full.Tree = t.TempDir()
	full.Files = nil
	h.merge(t, filepath.Join(full.Tree, "usr/src/kernels", h.uname(t)), h.uname(t))
	rt.Provides = append(rt.Provides, "kernel-devel = "+newest)
	return []Package{full, devel("kernel-devel", older, older+".x86_64"), rt}
}

// mergeScript makes one tree of Debian's three, as in the family of RHEL. It leaves other
// architectures, links from one tree to another and wrappers of Makefiles out, and the compiler is
// called gcc, without a version.
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
	tool.Must(
		t,
		"sh",
		"-ec",
		mergeScript,
		"sh",
		h.Root,
		testfile.Write(t, tree+"/", ""),
		h.Release,
		uname,
	)
}
