package aptrepo

import (
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/gate"
	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/ci/rpmrepo"
	"github.com/driver-container/driver-container/ci/tool"
)

func TestRewrite(t *testing.T) {
	t.Parallel()
	const gcc = `Package: gcc-12
Version: 12.2.0-14+deb12u1
Depends: cpp-12 (= 12.2.0-14+deb12u1), gcc-12-base (= 12.2.0-14+deb12u1), libgcc-12-dev (= 12.2.0-14+deb12u1), libcc1-0 (>= 12.2.0-14+deb12u1)
Recommends: libc6-dev (>= 2.13-5)
Provides: c-compiler
Description: GNU C compiler
 of version 12
`
	const want = `Package: gcc-13
Version: 13.3.0-6ubuntu2~24.04
Depends: cpp-13 (= 13.3.0-6ubuntu2~24.04), gcc-12-base (= 12.2.0-14+deb12u1), libgcc-13-dev (= 13.3.0-6ubuntu2~24.04), libcc1-0 (>= 12.2.0-14+deb12u1)
Description: GNU C compiler
 of version 12
`
	assert.Same(t, want, renames()[0].rewrite(gcc))
	elf := renames()[3].rewrite("Package: libelf1\nVersion: 0.188-2.1\nDepends: libc6 (>= 2.33)\n")
	if !strings.Contains(elf, "Package: libelf1t64\n") || !strings.HasSuffix(elf, "Provides: libelf1 (= 0.190-1.1ubuntu0.1)\nReplaces: libelf1\nBreaks: libelf1 (<< 0.190-1.1ubuntu0.1)\n") {
		t.Errorf("libelf1 became\n%s", elf)
	}
}

func TestHeadersAreSplit(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"include/config/auto.conf": "", "Module.symvers": "", ".config": "", "scripts/mod/modpost": "", "tools/objtool/objtool": "",
		"arch/x86/include/generated/asm/x.h": "", "include/linux/module.h": "include/linux", "arch/x86/include/asm/io.h": "arch/x86/include/asm",
		"arch/x86/Makefile": "arch/x86/Makefile", "arch/Kconfig": "arch/Kconfig", "Makefile": "Makefile", "certs/extract-cert": "certs",
	} {
		got := linkFor(name)
		if ownOfFlavour(name) {
			got = ""
		}
		assert.Equalf(t, want, got, "%s is reached by the link", name)
	}
}

// TestAptInstalls: apt itself uses the repositories in the base, and the compiler and the headers that it
// installs compile a kernel module.
func TestAptInstalls(t *testing.T) {
	gate.Real(t, "apt-get and a compile in a base (make e2e-full TIER=peers) take two minutes, root, the network and what ci/e2e/setup installs")
	out := require.Value(exec.CommandContext(t.Context(), "../base", "debian12").Output())(t)
	k := lab.Kernel(t, "debian12")
	debian := strings.TrimPrefix(strings.TrimSpace(string(out)), "oci:")
	r := require.Value(Make(t.Context(), Options{Debian: debian, Kernel: &rpmrepo.Kernel{Root: k.Root, Release: k.Release}}))(t)
	bundle := filepath.Join(t.TempDir(), "bundle")
	tool.Must(t, "umoci", "unpack", "--image", filepath.Join(r.Dir, "base")+":ubuntu24.04", bundle)
	root := filepath.Join(bundle, "rootfs")
	server := httptest.NewServer(r.Handler())
	t.Cleanup(server.Close)
	for name, text := range map[string]string{"hello.c": hello, "Makefile": "obj-m := hello.o\n"} {
		require.NoError(t, rpmrepo.WriteFile(filepath.Join(root, "hello", name), text))
	}
	const script = `set -e
export DEBIAN_FRONTEND=noninteractive http_proxy=$1
apt-get -o APT::Sandbox::User=root -q update
apt-get -o APT::Sandbox::User=root -qy install --no-install-recommends gcc-13 kmod libc6-dev libelf1t64 make linux-headers-generic
ln -s gcc-13 /usr/bin/gcc
make -C /usr/src/linux-headers-` + Newest + ` M=/hello modules
modinfo -F vermagic /hello/hello.ko`
	if out := tool.Must(t, "chroot", root, "sh", "-c", script, "sh", server.URL); !strings.HasPrefix(lastLine(out), Newest+" ") {
		t.Errorf("the module is for another kernel: %s", out)
	}
}

const hello = `#include <linux/module.h>
static int __init hello(void) { return 0; }
static void __exit bye(void) { }
module_init(hello);
module_exit(bye);
MODULE_LICENSE("GPL");
`

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}
