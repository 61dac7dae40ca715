package realrepo

import (
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// deb is a Debian package that apt would download.
type deb struct{ name, version, file string }

// candidates asks apt-get which files it would download. Their names are inputs of the cache's key.
func candidates(t testing.TB, args ...string) []deb {
	t.Helper()
	var found []deb
	for line := range strings.Lines(tool.Must(t, append([]string{"apt-get", "--print-uris", "-qq"}, args...)...)) {
		words := strings.Fields(line)
		if parts := strings.Split(words[1], "_"); len(parts) == 3 {
			found = append(
				found,
				deb{
					name:    parts[0],
					version: strings.ReplaceAll(parts[1], "%3a", ":"),
					file:    words[1],
				},
			)
		}
	}
	if len(found) == 0 {
		t.Fatalf("apt-get %q would download nothing (has apt-get update run?)", args)
	}
	return found
}

// download downloads packages into a folder.
func download(t testing.TB, debs []deb, dir string) {
	t.Helper()
	args := []string{"sh", "-ec", `cd "$1"; shift; exec apt-get download -qq "$@"`, "sh", dir}
	for _, d := range debs {
		args = append(args, d.name+"="+d.version)
	}
	tool.Must(t, args...)
}

// unpackScript unpacks a Debian package at the paths of the family of RHEL. Some paths go through
// links that systems have in their root, as in real packages: /lib64/libc.so.6, /sbin/ldconfig. It
// leaves out documents, translations, and large files that compiling kernel modules does not need.
const unpackScript = `dpkg-deb --fsys-tarfile "$1" | tar -x -C "$2" --exclude=./lib64 \
 --transform='s,^(\.?/)(usr/)?lib/x86_64-linux-gnu/,\1\2lib64/,x' --transform='s,^(\.?/)usr/include/x86_64-linux-gnu/,\1usr/include/,x' \
 --transform='s,^(\.?/)(bin|sbin|lib)/,\1usr/\2/,x' --transform='s,^\./usr/sbin/ldconfig$,./sbin/ldconfig,x' \
 --transform='s,^\./usr/share/doc/([^/]*)/copyright$,./usr/share/licenses/\1/copyright,x'
cd "$2"
find . -regextype posix-extended ! -type d -regex "$3" -delete`

const unused = `\./(usr/share/(doc|man|locale|info|lintian|bug|bash-completion|doc-base|menu|gdb|gcc|lto|initramfs-tools)/.*` +
	`|usr/lib64/(gconv|bfd-plugins|gprofng|audit)/.*|.*/(lto1|lto-dump|g\+\+-mapper-server)|.*/lib[a-z]+san(_preinit)?\.(a|o|so)` +
	`|.*/lib(c|m-2\.36|mvec|m|bfd|opcodes|itm|quadmath)\.a|.*[-/](lto-dump|lto-dump-12|dwp|gold|ld\.gold|gprofng|gp-[a-z-]+)` +
	`|usr/bin/(catchsegv|mtrace|xtrace|tzselect|bashbug|perl5\.36.*|c_rehash|make-first-existing-target)` +
	`|.*/plugin/.*|etc/(init\.d|default|profile\.d|cron.*)/.*|usr/lib/systemd/.*|.*\.wasm)`
