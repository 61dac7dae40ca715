package aptrepo

import (
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
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
