package realrepo

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// ubuntuKernel is a kernel whose headers are in Ubuntu's repositories.
type ubuntuKernel struct {
	release string   // "6.8.0-106-generic"
	shared  string   // the package with the files that the flavours of a release share
	meta    string   // the package that depends on the newest kernel of its kind; "" for older ones
	suites  []string // that have its packages
}

// ubuntuKernels returns the series and flavours, by their real names. The first one is the kernel that Ubuntu
// 24.04 installs, and the one whose headers are real.
func ubuntuKernels() []ubuntuKernel {
	updates, both := []string{"noble-updates"}, []string{"noble-updates", "noble-security"}
	return []ubuntuKernel{
		{"6.8.0-106-generic", "linux-headers-6.8.0-106", "linux-headers-generic", both},
		{"6.8.0-31-generic", "linux-headers-6.8.0-31", "", []string{"noble"}},
		{"6.8.0-106-lowlatency", "linux-headers-6.8.0-106", "linux-headers-lowlatency", updates},
		{"6.8.0-1052-aws", "linux-aws-headers-6.8.0-1052", "linux-headers-aws", both},
		{"6.8.0-1050-aws", "linux-aws-headers-6.8.0-1050", "", updates},
		{"6.14.0-37-generic", "linux-hwe-6.14-headers-6.14.0-37", "linux-headers-generic-hwe-24.04", updates},
	}
}

// buildUbuntuKernels packs headers into the pools of suites below www.
func buildUbuntuKernels(t testing.TB, h *Headers, www, work string) {
	t.Helper()
	made := map[string]bool{}
	for i, k := range ubuntuKernels() {
		version := k.release[:strings.LastIndexByte(k.release, '-')]
		version += "." + version[strings.LastIndexByte(version, '-')+1:] // 6.8.0-106.106
		packages := []debPackage{
			{
				name: "linux-headers-" + k.release, version: version, arch: "amd64", depends: k.shared + ", libc6 (>= 2.34), libelf1t64 (>= 0.144)",
			},
			{name: k.shared, version: version, arch: "all"},
			{name: k.meta, version: version, arch: "amd64", depends: "linux-headers-" + k.release},
		}
		if i == 0 && h != nil {
			tree := func(name string) string { return filepath.Join(work, name, "usr/src", name) }
			h.merge(t, tree(k.shared), k.release)
			tool.Must(t, "sh", "-ec", splitScript, "sh", tree(k.shared), tree(packages[0].name))
		}
		for _, p := range packages {
			if p.name == "" || made[p.name] {
				continue
			}
			made[p.name] = true
			for _, suite := range k.suites {
				p.build(t, filepath.Join(work, p.name), filepath.Join(www, hostOf(suite), "ubuntu/pool/main", suite))
			}
		}
	}
}

// splitScript distributes headers over the folders of the two packages that Ubuntu makes of them: $1 keeps the
// files that all flavours share, $2 gets one flavour's configuration and programs with links to the shared files.
// In a folder that is in both, each entry has its own link.
const splitScript = `cd "$1"; own=$2; mkdir -p "$own"
list="$(find .config Module.symvers include/config include/generated arch/x86/include/generated scripts tools -type f)"
echo "$list" | tar -c -T - | tar -x -C "$own"
echo "$list" | xargs rm
find . -type d -empty -delete
for folder in . ./arch ./arch/x86 ./arch/x86/include ./include; do
  up=$(echo "$folder/" | sed 's,[^/]*/,../,g')
  for entry in $(ls -A $folder); do
    [ -e "$own/$folder/$entry" ] || ln -s "$up$(basename "$1")/${folder#.}/$entry" "$own/$folder/$entry"
  done
done`
