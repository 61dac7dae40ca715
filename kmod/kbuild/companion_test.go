package kbuild

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/kbuildtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

// TestManifestCompanions: what a manifest says of companions is read, within bounds.
func TestManifestCompanions(t *testing.T) {
	t.Parallel()
	whole := func() *manifest {
		file := func(name string) manifestModule {
			return manifestModule{Name: name, Size: 1, SHA256: strings.Repeat("ab", 32)}
		}
		return &manifest{
			Schema: manifestSchema, Modules: []manifestModule{file("nvidia"), file("nvidia-fs")}, Omitted: []Omission{{"gdrdrv", "no such function"}},
			Key: Key{Driver: driver, Flavour: "proprietary", Release: release, Method: Method, Companions: []string{"nvidia-fs 2.13.5 abcd", "gdrdrv 2.5.2 abcd"}},
		}
	}
	for _, c := range []struct {
		change func(m *manifest)
		want   string
	}{
		{func(*manifest) {}, ""},
		{func(m *manifest) { m.Omitted[0].Reason = "" }, `a bad reason for the missing module "gdrdrv"`},
		{func(m *manifest) { m.Omitted[0].Reason = strings.Repeat("x", maxReason+1) }, "a bad reason"},
		{func(m *manifest) { m.Omitted[0].Module = "../gdrdrv" }, "a bad reason"},
		{func(m *manifest) { m.Omitted = make([]Omission, maxCompanions+1) }, "has schema 1"},
		{func(m *manifest) { m.Key.Companions = make([]string, maxCompanions+1) }, "9 companions"},
	} {
		m := whole()
		c.change(m)
		got, err := parseManifest(require.Value(m.seal())(t))
		if c.want == "" {
			require.NoError(t, err)
			set := got.set("/d")
			assert.Equal(t, "no such function", set.OmittedReason("gdrdrv"))
			assert.Equal(t, "", set.OmittedReason("nvidia_fs"))
			assert.Same(t, m.Key.Companions, set.Key.Companions)
		} else if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// companionBench is a bench whose make knows companions too: it leaves their modules if script succeeds.
func companionBench(t *testing.T, script string) bench {
	t.Helper()
	b := newBench(t, `case "$*" in *M=*) ;; *) `+goodMake+`; exit ;; esac
m=$(echo "$*" | sed 's/.*M=\([^ ]*\).*/\1/'); echo "$@" >>"$kos/companions"; cd "$m"
`+script)
	for _, name := range []string{"nvidia-fs", "gdrdrv"} {
		testfile.Write(t, b.kos+"/companions.d/"+name+".ko", kbuildtest.Module(strings.ReplaceAll(name, "-", "_"), "2.0", release))
	}
	testfile.Write(t, b.job.Source+"/nvidia/nv-p2p.h", "")
	dir := t.TempDir()
	for _, c := range kbuildtest.Companions(t, dir, b.job.Compiler.Path) {
		b.job.Companions = append(b.job.Companions, Companion{c.Name, c.Version, c.Digest[:4], dir + c.Sources})
	}
	return b
}

const copyCompanions = `cp "$kos"/companions.d/*.ko . && cat Makefile >"$kos/makefile"`

func TestCompanions(t *testing.T) {
	t.Parallel()
	b := companionBench(t, copyCompanions)
	for _, script := range require.Value(filepath.Glob(b.job.Companions[1].Source + "/scripts/*"))(t) {
		require.NoError(t, os.Chmod(script, 0o644)) // nothing starts what was just written: it may be busy
	}
	before := snapshot(t, b.job.Companions[1].Source)
	set := require.Value(Compile(t.Context(), b.job))(t)
	assert.Samef(t, before, snapshot(t, b.job.Companions[1].Source), "the sources changed")
	for _, name := range []string{"nvidia", "nvidia-fs", "gdrdrv"} {
		_, ok := set.File(name)
		assert.Equalf(t, true, ok, "%s is not in the set: %v", name, set.Omitted)
	}
	assert.Same(t, []string{"nvidia-fs 2.13.5 abab", "gdrdrv 2.13.5 cdcd"}, set.Key.Companions)
	args := string(require.Value(os.ReadFile(b.kos + "/companions"))(t))
	for _, want := range []string{
		"-C " + b.job.Headers.Build, "/source/nvidia ", "/source/Module.symvers", "CC=" + b.job.Compiler.Path, "-DGDS_VERSION=1.4.0.29 ",
		"CONFIG_NVFS_STATS=y", "HAVE_PROC_OPS=y HAVE_VM_FLAGS_SET=n",
	} {
		assert.Containsf(t, args, want, "make")
	}
	assert.Equalf(t, false, strings.Contains(args, "IS_OPENSOURCE"), "the closed modules")
	assert.Equal(t, "obj-m :=\nobj-m += gdrdrv.o\n", string(require.Value(os.ReadFile(b.kos+"/makefile"))(t)))
	kept := require.Value(Cache{Dir: t.TempDir()}.Put(t.Context(), set))(t)
	assert.Same(t, set.Key, kept.Key)
}

// TestCompanionLeftOut: a companion that cannot be compiled for this kernel leaves its reason, and the other
// modules are there.
func TestCompanionLeftOut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, script string
		change       func(t *testing.T, b *bench)
		want         string
	}{
		{"compiler", `case $m in *nvidia-fs) echo "$m/nvfs-core.c:7:1: error: too few   arguments" >&2; exit 2 ;; esac; ` + copyCompanions, nil, "nvfs-core.c:7:1: error: too few arguments"},
		{"no module", `case $m in *nvidia-fs) exit 0 ;; esac; ` + copyCompanions, nil, "make succeeded, but made no nvidia-fs.ko"},
		{"other kernel", copyCompanions, func(t *testing.T, b *bench) {
			testfile.Write(t, b.kos+"/companions.d/nvidia-fs.ko", kbuildtest.Module("nvidia_fs", "2.0", "6.1.0-55-amd64"))
		}, `is for kernel "6.1.0-55-amd64"`},
		{"unknown configure", copyCompanions, func(t *testing.T, b *bench) {
			testfile.Write(t, b.job.Companions[0].Source+"/configure", "#!/bin/sh\n")
		}, `configure has no "KDIR=$MODULES_DIR/build"`},
		{"no test works", copyCompanions, func(t *testing.T, b *bench) {
			testfile.Write(t, b.job.Companions[0].Source+"/configure", "#!/bin/sh\nKDIR=$MODULES_DIR/build\necho >config-host.h\n")
		}, "its test compiles do not work here"},
		{"version", copyCompanions, func(t *testing.T, b *bench) {
			testfile.Write(t, b.job.Companions[0].Source+"/GDS_VERSION", "1 -o /etc/passwd\n")
		}, "which is no version"},
		{"old driver", copyCompanions, func(t *testing.T, b *bench) {
			require.NoError(t, os.Remove(b.job.Source+"/nvidia/nv-p2p.h"))
		}, "have no nvidia/nv-p2p.h"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := companionBench(t, c.script)
			if c.change != nil {
				c.change(t, &b)
			}
			set := require.Value(Compile(t.Context(), b.job))(t)
			if got := set.OmittedReason("nvidia-fs"); !strings.Contains(got, c.want) || strings.Contains(got, b.job.Work) {
				t.Errorf("%q, want %q", got, c.want)
			}
			_, ok := set.File("nvidia")
			assert.Equalf(t, true, ok, "the driver's module")
			require.Value(Cache{Dir: t.TempDir()}.Put(t.Context(), set))(t)
		})
	}
}

// TestCompanionTrouble: what another attempt may not have is no reason to leave a companion out for good.
func TestCompanionTrouble(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, script string }{
		{"killed", `echo "gcc: fatal error: Killed signal terminated program cc1"; exit 2`},
		{"full disk", `echo "nvfs-core.c:1: error: No space left on device"; exit 2`},
	} {
		b := companionBench(t, c.script)
		set, err := Compile(t.Context(), b.job)
		if _, ok := errors.AsType[*CompileError](err); !ok || set != nil {
			t.Errorf("%s: %v, %v", c.name, set, err)
		}
	}
	_, left := omitted(&CompileError{Err: fmt.Errorf("make failed: %w", unix.EAGAIN)})
	assert.Equalf(t, false, left, "a program that could not be started")
	b := companionBench(t, copyCompanions)
	b.job.Companions[0].Source += "-missing"
	_, err := Compile(t.Context(), b.job)
	assert.ErrorContains(t, err, "the image is not complete")
}
