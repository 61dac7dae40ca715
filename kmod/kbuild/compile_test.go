package kbuild

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/ci/testkit/kbuildtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/kmod/kbuild/buildtree"
)

// The fake make prints what the real one prints, and takes finished modules.
const goodMake = `
echo " CONFTEST: one"; echo " CONFTEST: functions.h:"; echo "  CC [M]  $PWD/nvidia/nv.o"; echo "  CC [M]  $PWD/nvidia/nv-pci.o"
echo "warning: something" >&2
echo "$@" >"$kos/args"; env >"$kos/env"; pwd >"$kos/pwd"
echo object >nvidia/nv.o; echo changed >nvidia/nv-kernel.o_binary
cp "$kos"/*.ko .`

func TestCompile(t *testing.T) {
	t.Parallel()
	b := newBench(t, goodMake)
	b.job.Modules = append(b.job.Modules, "nvidia-peermem")
	b.job.Optional = []string{"nvidia-peermem"}
	var steps []string
	b.job.Progress = func(done, total int, what string) { steps = append(steps, fmt.Sprint(done, "/", total, " ", what)) }
	before := snapshot(t, b.job.Source)
	set := require.Value(Compile(context.Background(), b.job))(t)
	assert.Samef(t, before, snapshot(t, b.job.Source), "the sources changed")
	assert.Same(t, []string{"1/11 CONFTEST one", "2/11 CC nvidia/nv.o", "3/11 CC nvidia/nv-pci.o", "11/11 done"}, steps)
	var names []string
	for _, f := range set.Modules {
		names = append(names, f.Name+" "+f.Info.Name+" "+f.Info.Version+" "+f.Info.Release())
		if raw, err := os.ReadFile(f.Path); err != nil || int64(len(raw)) != f.Size || filepath.Dir(f.Path) != set.Dir {
			t.Errorf("%+v: %v", f, err)
		}
	}
	assert.Same(t, []string{"nvidia nvidia 535.261.03 " + release, "nvidia-uvm nvidia_uvm  " + release}, names)
	if _, ok := set.File("nvidia_uvm"); !ok {
		t.Error("no nvidia_uvm in the set")
	}
	if _, ok := set.File("nvidia-drm"); ok {
		t.Error("nvidia-drm in the set")
	}
	log, err := os.ReadFile(b.job.Log)
	if err != nil || !strings.Contains(string(log), "warning: something") {
		t.Errorf("log %q, %v", log, err)
	}
	left, err := os.ReadDir(filepath.Join(b.job.Work, scratch))
	if err != nil || len(left) != 1 || left[0].Name() != scratchModules {
		t.Errorf("left in the scratch folder: %v, %v", left, err)
	}
	checkCall(t, b, set)
	goldentest.Schema(t, "compile.schema.json", string(require.Value(json.Marshal(set))(t)))
}

// checkCall checks the arguments and the environment of make.
func checkCall(t *testing.T, b bench, set *Set) {
	t.Helper()
	source := filepath.Join(b.job.Work, scratch, scratchSource)
	args := require.Value(os.ReadFile(filepath.Join(b.kos, "args")))(t)
	want := "-C " + source + " -j2 modules KERNEL_UNAME=" + release + " SYSSRC=" + b.job.Headers.Source + " SYSOUT=" + b.job.Headers.Build +
		" CC=" + b.tools + "/gcc-12 IGNORE_CC_MISMATCH=1 NV_KERNEL_MODULES=nvidia nvidia-uvm\n"
	assert.Same(t, want, string(args))
	raw := require.Value(os.ReadFile(filepath.Join(b.kos, "env")))(t)
	env := strings.Split(strings.TrimSpace(string(raw)), "\n")
	env = slices.DeleteFunc(env, func(v string) bool { // the shell sets these itself
		return strings.HasPrefix(v, "PWD=") || strings.HasPrefix(v, "OLDPWD=") || strings.HasPrefix(v, "_=") || strings.HasPrefix(v, "SHLVL=")
	})
	wantEnv := (&compile{Job: b.job, dir: filepath.Join(b.job.Work, scratch)}).environment("")
	slices.Sort(env)
	slices.Sort(wantEnv)
	assert.Same(t, wantEnv, env)
	if key := set.Key.String(); !strings.HasPrefix(key, "535.261.03-proprietary-"+release+"-") {
		t.Errorf("key %s", key)
	}
}

// TestVariables: further variables reach make and the key, and only plain ones are accepted.
func TestVariables(t *testing.T) {
	t.Parallel()
	j := Job{Driver: "535.261.03", Flavour: "open"}
	plain := j.Key()
	j.Variables = []string{"GRID_BUILD=1", "GRID_BUILD_CSP=1"}
	args := strings.Join((&compile{Job: j, names: []string{"nvidia"}}).arguments(), " ")
	assert.Contains(t, args, "NV_KERNEL_MODULES=nvidia GRID_BUILD=1 GRID_BUILD_CSP=1")
	if key := j.Key(); key.String() == plain.String() || key.String() != j.Key().String() {
		t.Errorf("the keys %s and %s", key, plain)
	}
	for _, bad := range []string{"GRID_BUILD", "grid=1", "A=$(shell id)", "A=1 B=2", "-C=/", "A=../x", "A=" + strings.Repeat("1", 65)} {
		b := newBench(t, "exit 0")
		b.job.Variables = []string{bad}
		_, err := b.job.check()
		assert.ErrorContainsf(t, err, "is no variable of make with a plain value", "%q", bad)
	}
}

func TestCompileErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, script string
		change       func(t *testing.T, b *bench)
		killed       bool
		is           error
		want         string
	}{
		{"the compiler fails", "for i in $(seq 100); do echo line $i; done; echo 'nvidia/nv.c:7:1: error: no such thing'; echo 'make: *** [nv.o] Error 1'; exit 2", nil,
			false, nil, "make failed: exit status 2: nvidia/nv.c:7:1: error: no such thing; does this driver support"},
		{"a compiler is killed", "echo 'gcc: fatal error: Killed signal terminated program cc1' >&2; exit 2", nil, true, nil, "out of memory with 2 jobs"},
		{"make itself is killed", "kill -9 $$", func(_ *testing.T, b *bench) { b.job.Jobs = 1 }, true, nil, "raise the container's memory limit above 1 GiB"},
		{"a test's compiler is killed and nobody says so", goodMake + "\necho oom_kill 5 >\"$kos/../memory.events\"", func(t *testing.T, b *bench) {
			testfile.Write(t, b.job.Limits.Proc+"/self/cgroup", "0::/\n")
			testfile.Write(t, b.job.Limits.Cgroup+"/memory.events", "oom_kill 4\n")
		}, true, nil, "killed 1 of its programs for want of memory; out of memory"},
		{"the disk is full", "echo 'x.s: Fatal error: write failed: No space left on device'; exit 1", nil, false, unix.ENOSPC, "/work: no space left on device"},
		{"strip fails", goodMake, func(t *testing.T, b *bench) {
			testfile.Write(t, b.tools+"/strip", "#!/bin/sh\necho error: bad file\nexit 1\n")
		}, false, nil, "strip of nvidia.ko failed: exit status 1: error: bad file"},
		{"a module is not made", "cp $kos/nvidia.ko .", nil, false, nil, "make succeeded, but made no nvidia-uvm.ko"},
		{"a module of another version", goodMake, func(t *testing.T, b *bench) {
			testfile.Write(t, b.kos+"/nvidia.ko", kbuildtest.Module("nvidia", "470.256.02", release))
		}, false, nil, `nvidia that was made from them has version "470.256.02", not 535.261.03`},
		{"a module for another kernel", goodMake, func(t *testing.T, b *bench) {
			testfile.Write(t, b.kos+"/nvidia-uvm.ko", kbuildtest.Module("nvidia_uvm", driver, "5.10.0"))
		}, false, nil, `is for kernel "5.10.0"`},
		{"a module that is none", goodMake, func(t *testing.T, b *bench) { testfile.Write(t, b.kos+"/nvidia.ko", "text") }, false, nil, "not a kernel module"},
		{"a wanted module is not in the sources", goodMake, func(_ *testing.T, b *bench) { b.job.Modules = []string{"nvidia", "nvidia-drm"} },
			false, fs.ErrNotExist, "no folder for the module nvidia-drm"},
		{"no sources", goodMake, func(_ *testing.T, b *bench) { b.job.Source = "/nowhere" }, false, nil, "the driver's sources in /nowhere: Makefile"},
		{"a name that is a path", goodMake, func(_ *testing.T, b *bench) { b.job.Modules = []string{"../x"} }, false, nil, "is no name of a module"},
		{"a path with a blank", goodMake, func(_ *testing.T, b *bench) { b.job.Work = "/a b" }, false, nil, "without blanks"},
		{"a link out of the sources", goodMake, func(t *testing.T, b *bench) { testfile.Write(t, b.job.Source+"/nvidia/out.h", "-> /etc/passwd") },
			false, nil, "copy the driver's sources"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, tt.script)
			if tt.change != nil {
				tt.change(t, &b)
			}
			_, err := Compile(t.Context(), b.job)
			assert.ErrorContains(t, err, tt.want)
			failed, ok := errors.AsType[*CompileError](err)
			assert.Equalf(t, tt.killed, ok && failed.Killed, "killed")
			if tt.is != nil {
				assert.ErrorIs(t, err, tt.is)
			}
			if ok && len(failed.Tail) > 6 && (len(failed.Tail) != tailLines || failed.Tail[0] != "line 63") { // of 102 lines the last 40
				t.Errorf("the end of the output: %q", failed.Tail)
			}
			if left, _ := filepath.Glob(filepath.Join(b.job.Work, scratch, "*")); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		})
	}
}

// A stop reaches processes that ignore SIGTERM, and those that make no longer waits for.
func TestCompileStop(t *testing.T) {
	t.Parallel()
	b := newBench(t, `trap '' TERM; (trap '' TERM; echo $$ >"$kos/child"; exec sleep 100) & echo started; sleep 100`)
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	cause := errors.New("SIGTERM")
	var begin time.Time
	go func() {
		for !kmod.IsFile(filepath.Join(b.kos, "child")) {
			time.Sleep(5 * time.Millisecond)
		}
		begin = time.Now()
		cancel(cause)
	}()
	_, err := Compile(ctx, b.job)
	if !errors.Is(err, cause) {
		t.Fatalf("error %v", err)
	}
	if took := time.Since(begin); took > time.Minute { // a second on a quiet machine; the programs sleep for 100
		t.Errorf("took %v", took)
	}
	for _, process := range running(t, b.kos) {
		t.Errorf("left: %s", process)
	}
}

// running returns the processes, except zombies, that work in a folder.
func running(t *testing.T, dir string) []string {
	t.Helper()
	all := require.Value(filepath.Glob("/proc/[0-9]*/cwd"))(t)
	var found []string
	for _, link := range all {
		if cwd, err := os.Readlink(link); err == nil && strings.HasPrefix(cwd, filepath.Dir(dir)) {
			found = append(found, link+" "+cwd)
		}
	}
	return found
}

func TestCompileTwiceAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, goodMake)
	_, unlock, err := prepare(b.job.Work)
	require.NoError(t, err)
	assert.ErrorIs(t, assert.Err(Compile(context.Background(), b.job)), ErrBusy)
	unlock()
	testfile.Write(t, b.job.Work+"/"+scratch+"/source/left", "by a killed one")
	if _, err := Compile(context.Background(), b.job); err != nil {
		t.Error(err)
	}
}

func TestPrefixMaps(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ compiler, root, want string }{
		{"gcc 12.2.0", "/", "-ffile-prefix-map=/w/source=/usr/src/nvidia-1.2"},
		{"gcc 12.2.0", "/proc/1/root", "-ffile-prefix-map=/w/source=/usr/src/nvidia-1.2 -fdebug-prefix-map=/proc/1/root="},
		{"gcc 4.8.5", "/", ""}, {"clang 9.0.0", "/", ""}, {"", "/", ""},
	} {
		j := Job{Driver: "1.2", Compiler: Compiler{Version: tt.compiler}, Headers: buildtree.Headers{RootDir: tt.root}}
		assert.Equalf(t, tt.want, j.prefixMaps("/w"), "%s", tt.compiler)
	}
}

func TestKilledWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"gcc: fatal error: Killed signal terminated program cc1":           true,
		"collect2: fatal error: ld terminated with signal 9 [Killed]":      true,
		"x86_64-linux-gnu-gcc-12: internal compiler error: Killed (cc1)":   true,
		"make[2]: *** [scripts/Makefile.build:250: /w/nvidia/nv.o] Killed": true,
		"Killed": true,
		"/bin/sh: line 1: 4711 Killed                  ld -r -o nvidia.o": true,
		"make[2]: *** [/w/nvidia.o] Error 137":                            true,
		"make[2]: *** [/w/nvidia.o] Terminated":                           false,
		" CONFTEST: oom_Killed":                                           false,
		"nvidia/nv.c:1: error: 'isKilled' undeclared":                     false,
		"nvidia/nv.c:1: note: a task that is Killed":                      false,
	} {
		assert.Equalf(t, want, killed().MatchString(text), "%q", text)
	}
}

// snapshot returns the content of a tree.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			raw, err := os.ReadFile(path)
			all[path] = string(raw)
			return err
		}
		return err
	}))
	return all
}
