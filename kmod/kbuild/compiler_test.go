package kbuild

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/kmod/kbuild/buildtree"
)

func TestParseVersion(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		debianText: "gcc 12.2.0",
		"gcc version 4.8.5 20150623 (Red Hat 4.8.5-44) (GCC) ":                                            "gcc 4.8.5",
		"gcc (GCC) 11.5.0 20240719 (Red Hat 11.5.0-2)":                                                    "gcc 11.5.0",
		"gcc (Ubuntu 5.4.0-6ubuntu1~16.04.12) 5.4.0 20160609":                                             "gcc 5.4.0",
		"x86_64-linux-gnu-gcc-13 (Ubuntu 13.2.0-23ubuntu4) 13.2.0, GNU ld (GNU Binutils for Ubuntu) 2.42": "gcc 13.2.0",
		"aarch64-linux-gcc.br_real (Buildroot 2020.08-14-ge5a2a90) 9.3.0, GNU ld (GNU Binutils) 2.33.1":   "gcc 9.3.0",
		"gcc version 8.3.0 (Debian 8.3.0-6)":                                                              "gcc 8.3.0",
		"x86_64-cros-linux-gnu-gcc (Gentoo Hardened 14.3.1_p20250801 p4) 14.3.1 20250801":                 "gcc 14.3.1",
		"gcc (SUSE Linux) 7.5.0":                   "gcc 7.5.0",
		"Debian clang version 16.0.6 (15~deb12u1)": "clang 16.0.6",
		"Chromium OS 14.0_pre445002_p20220217-r3 clang version 14.0.0 (/var/tmp/portage 18308e171b5b1dd99627a4d88c7d6c5ff21b8c96)": "clang 14.0.0",
		"": "", "gcc": "", "cc (trunk)": "",
	} {
		v, ok := parseVersion(text)
		if got := v.String(); ok != (want != "") || ok && got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func FuzzParseVersion(f *testing.F) {
	f.Add(debianText)
	f.Add("clang version 1.2.3.4.5")
	f.Fuzz(func(t *testing.T, text string) {
		v, ok := parseVersion(text)
		if ok && (len(v.fields) == 0 || len(v.fields) > 4) {
			t.Errorf("%q: %v", text, v)
		}
	})
}

func TestFindCompiler(t *testing.T) {
	t.Parallel()
	gcc := func(version string) string { return "#!/bin/sh\necho 'gcc (Some 1.0-1) " + version + "'\n" }
	tests := []struct {
		name, text string
		programs   map[string]string
		want       Compiler // with Path relative to the folder
		wantErr    string
	}{
		{"exact", debianText, map[string]string{"gcc-11": gcc("11.4.0"), "gcc-12": gcc("12.2.0"), "gcc-12.sh": gcc("1.0.0")},
			Compiler{Path: "gcc-12", Version: "gcc 12.2.0", Wanted: "gcc 12.2.0"}, ""},
		{"the kernel's own name among equals", debianText, map[string]string{"cc": gcc("12.2.0"), "gcc": gcc("12.2.0"), "gcc-12": gcc("12.2.0")},
			Compiler{Path: "gcc-12", Version: "gcc 12.2.0", Wanted: "gcc 12.2.0"}, ""},
		{"plain name among equals", debianText, map[string]string{"cc": gcc("12.2.0"), "gcc": gcc("12.2.0"), "x86_64-linux-gnu-gcc-12": gcc("12.2.0")},
			Compiler{Path: "gcc", Version: "gcc 12.2.0", Wanted: "gcc 12.2.0"}, ""},
		{"other patch level", debianText, map[string]string{"gcc-12": gcc("12.4.0"), "gcc-13": gcc("13.2.0")},
			Compiler{Path: "gcc-12", Version: "gcc 12.4.0", Wanted: "gcc 12.2.0", Mismatch: true}, ""},
		{"newer rather than older", debianText, map[string]string{"gcc-11": gcc("11.4.0"), "gcc-13": gcc("13.2.0")},
			Compiler{Path: "gcc-13", Version: "gcc 13.2.0", Wanted: "gcc 12.2.0", Mismatch: true}, ""},
		{"nearest", debianText, map[string]string{"gcc-10": gcc("10.2.0"), "gcc-11": gcc("11.4.0"), "gcc-15": gcc("15.1.0")},
			Compiler{Path: "gcc-11", Version: "gcc 11.4.0", Wanted: "gcc 12.2.0", Mismatch: true}, ""},
		{"not known: the newest", "", map[string]string{"gcc-9": gcc("9.4.0"), "gcc-10": gcc("10.2.0")},
			Compiler{Path: "gcc-10", Version: "gcc 10.2.0"}, ""},
		{"broken ones are passed over", debianText, map[string]string{"gcc": "#!/bin/sh\nexit 1\n", "gcc-12": "-> nowhere", "gcc-9": gcc("9.1.0")},
			Compiler{Path: "gcc-9", Version: "gcc 9.1.0", Wanted: "gcc 12.2.0", Mismatch: true}, ""},
		{"clang's kernel", "Debian clang version 16.0.6 (15~deb12u1)", map[string]string{"gcc": gcc("12.2.0")},
			Compiler{}, "it was built with clang 16.0.6, and in"},
		{"none", debianText, nil, Compiler{}, "there is no other one"},
	}
	for _, tt := range tests {
		dir := testfile.Tree(t, t.TempDir(), tt.programs)
		got, err := FindCompiler(t.Context(), buildtree.Headers{CompilerText: tt.text}, "relative:"+filepath.Join(dir, "nothing")+":"+dir)
		if tt.wantErr != "" {
			_, ok := errors.AsType[*NoCompilerError](err)
			assert.Equalf(t, true, ok && strings.Contains(err.Error(), tt.wantErr), "%s: error %v", tt.name, err)
			continue
		}
		require.NoErrorf(t, err, "%s", tt.name)
		got.Path = filepath.Base(got.Path)
		assert.Samef(t, tt.want, got, "%s", tt.name)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := testfile.Tree(t, t.TempDir(), map[string]string{"gcc": gcc("12.2.0")})
	assert.ErrorIs(t, assert.Err(FindCompiler(ctx, buildtree.Headers{}, dir)), context.Canceled)
}

// TestToolPrefix: where all names of a toolchain have the target in front, as Flatcar's, make and strip
// are told.
func TestToolPrefix(t *testing.T) {
	t.Parallel()
	const cros = "x86_64-cros-linux-gnu-"
	for name, tt := range map[string]struct{ programs, compiler, want string }{
		"plain":                      {"gcc ld strip", "gcc", ""},
		"cross names only":           {cros + "gcc " + cros + "gcc-14 " + cros + "ld " + cros + "strip", cros + "gcc-14", cros},
		"both":                       {cros + "gcc " + cros + "ld ld strip", cros + "gcc", ""},
		"no linker of this name":     {"aarch64-cros-linux-gnu-ld " + cros + "gcc", cros + "gcc", ""},
		"a compiler of another name": {"clang-16", "clang-16", ""},
	} {
		dir := t.TempDir()
		for program := range strings.FieldsSeq(tt.programs) {
			testfile.Write(t, dir+"/"+program, "#!/bin/sh\n")
		}
		assert.Equalf(t, tt.want, toolPrefix(filepath.Join(dir, tt.compiler), dir), "%s", name)
	}
	j := Job{Compiler: Compiler{Path: "/opt/none/gcc-12", Version: "gcc 12.2.0"}}
	assert.Equal(t, 0, len(j.toolArguments()))
}
