package kbuild

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	scratch        = "driver-modules" // below Job.Work: everything that a compile writes, except the log
	scratchSource  = "source"
	scratchModules = "modules"
	scratchTemp    = "tmp"
)

// CompileError says that make or strip failed.
type CompileError struct {
	Driver, Release string
	Jobs            int
	Tail            []string // the last 40 lines of the output
	Errors          []string // the first lines of the output that report an error; may be empty
	Log             string   // the file with the whole output
	Killed          bool     // the kernel killed a compiler for lack of memory
	Err             error    // how the command ended; wraps unix.ENOSPC when the disk was full
}

func (e *CompileError) Error() string {
	text := fmt.Sprintf("compile driver %s for kernel %s: %v", e.Driver, e.Release, e.Err)
	if len(e.Errors) > 0 {
		text += ": " + e.Errors[0]
	}
	switch {
	case e.Killed && e.Jobs > 1:
		return text + fmt.Sprintf("; out of memory with %d jobs: raise the container's memory limit or allow fewer jobs; whole output in %s", e.Jobs, e.Log)
	case e.Killed:
		return text + fmt.Sprintf("; out of memory: raise the container's memory limit above 1 GiB; whole output in %s", e.Log)
	case errors.Is(e.Err, unix.ENOSPC):
		return text + "; free some space there; whole output in " + e.Log
	}
	return text + fmt.Sprintf("; does this driver support this kernel and compiler? whole output in %s", e.Log)
}

func (e *CompileError) Unwrap() error { return e.Err }

// Compile compiles the job's modules and returns the set. The set stays in Job.Work until the next Compile
// there: put it into a Cache. Errors: ctx's cause within 2 s of its end, with no process left; *SourceError;
// *CompileError; ErrBusy when another compile uses Job.Work; file errors. After a failure only the log is
// left.
func Compile(ctx context.Context, j Job) (_ *Set, err error) {
	names, err := j.check()
	if err != nil {
		return nil, err
	}
	dir, unlock, err := prepare(j.Work)
	if err != nil {
		return nil, err
	}
	defer unlock()
	defer func() {
		toRemove := []string{scratchSource, scratchCompanions, scratchTemp}
		if err != nil {
			toRemove = append(toRemove, scratchModules)
		}
		for _, name := range toRemove {
			if removed := os.RemoveAll(filepath.Join(dir, name)); err == nil && removed != nil {
				err = fmt.Errorf("clean up after the compile: %w", removed)
			}
		}
	}()
	if err := copySources(ctx, j.Source, filepath.Join(dir, scratchSource)); err != nil {
		return nil, fmt.Errorf("copy the driver's sources from %s to %s: %w", j.Source, dir, err)
	}
	if err := j.runMake(ctx, dir, names); err != nil {
		return nil, err
	}
	set, err := j.collect(ctx, dir, names)
	if err != nil {
		return nil, err
	}
	if err := j.addCompanions(ctx, dir, set); err != nil {
		return nil, err
	}
	if total := steps(j.Source, names); j.Progress != nil && total > 0 {
		j.Progress(total, total, "done")
	}
	return set, nil
}

// ErrBusy says that another compile uses the same scratch folder.
var ErrBusy = errors.New("another compile is at work there")

// prepare creates an empty scratch folder and locks it. The lock ends with the process, also when that is
// killed.
func prepare(work string) (dir string, unlock func(), err error) {
	dir = filepath.Join(work, scratch)
	made := os.Mkdir(dir, 0o755) // its error matters only if the folder cannot be opened
	lock, err := os.Open(dir)
	if err != nil {
		return "", nil, fmt.Errorf("prepare the scratch folder: %w", errors.Join(made, err))
	}
	if err := empty(lock); err != nil {
		lock.Close()
		return "", nil, fmt.Errorf("prepare the scratch folder %s: %w", dir, err)
	}
	return dir, func() {
		_ = unix.Flock(int(lock.Fd()), unix.LOCK_UN) // a child between fork and exec has the descriptor too
		lock.Close()
	}, nil
}

// empty locks the scratch folder and recreates its subfolders, empty.
func empty(dir *os.File) error {
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			return ErrBusy
		}
		return err
	}
	for _, name := range []string{scratchSource, scratchCompanions, scratchModules, scratchTemp} {
		if err := os.RemoveAll(filepath.Join(dir.Name(), name)); err != nil {
			return err
		}
	}
	return errors.Join(os.Mkdir(filepath.Join(dir.Name(), scratchModules), 0o755), os.Mkdir(filepath.Join(dir.Name(), scratchTemp), 0o755))
}

// environment returns the complete environment of the programs. It fixes names, times and paths that would
// get into the modules. Each of maps is a further folder of sources and the name that it appears under:
// "/work/companions/gdrdrv=/usr/src/gdrdrv-2.5.2".
func (j Job) environment(dir string, maps ...string) []string {
	env := []string{
		"PATH=" + searchPath(filepath.Dir(j.Compiler.Path)),
		"LC_ALL=C", // output checks search messages for English words
		"HOME=" + filepath.Join(dir, scratchTemp),
		"TMPDIR=" + filepath.Join(dir, scratchTemp),
		"SOURCE_DATE_EPOCH=0",
		"KBUILD_BUILD_TIMESTAMP=Thu Jan  1 00:00:00 UTC 1970",
		"KBUILD_BUILD_USER=driver",
		"KBUILD_BUILD_HOST=driver",
	}
	if flags := j.prefixMaps(dir); flags != "" {
		for _, m := range maps {
			flags += " -ffile-prefix-map=" + m
		}
		env = append(env, "KCFLAGS="+flags)
	}
	return env
}

// prefixMaps returns compiler flags that keep our paths out of the modules (__FILE__ in assertions, and the
// debug information that the build id is computed from): the scratch folder appears as a folder that names
// the driver, the headers by their path in their own root.
func (j Job) prefixMaps(dir string) string {
	v, ok := parseVersion(j.Compiler.Version)
	if !ok || v.family == "gcc" && v.field(0) < 8 || v.family == "clang" && v.field(0) < 10 {
		return "" // the compiler does not know the flags: the paths are those of Job.Work
	}
	flags := "-ffile-prefix-map=" + filepath.Join(dir, scratchSource) + "=/usr/src/nvidia-" + j.Driver
	if root := strings.TrimSuffix(j.Headers.RootDir, "/"); root != "" {
		// Only for debug information: kbuild itself maps __FILE__ of its own tree to relative paths.
		flags += " -fdebug-prefix-map=" + root + "="
	}
	return flags
}

// arguments returns those of make. They switch off the Makefile's own check of the compiler, which knows
// fewer spellings: FindCompiler has compared the compiler with the kernel's and set Mismatch for a warning.
func (j Job) arguments(dir string, names []string) []string {
	args := []string{
		"-C", filepath.Join(dir, scratchSource), "-j" + strconv.Itoa(max(j.Jobs, 1)), "modules",
		"KERNEL_UNAME=" + j.Headers.Release,
		// Both, always: with SYSSRC alone, NVIDIA's tests do not find the generated headers of a split tree.
		"SYSSRC=" + j.Headers.Source,
		"SYSOUT=" + j.Headers.Build,
		"CC=" + j.Compiler.Path,
		"IGNORE_CC_MISMATCH=1",
		"NV_KERNEL_MODULES=" + strings.Join(names, " "),
	}
	return append(append(args, j.Variables...), j.toolArguments()...)
}

// toolArguments returns what make needs besides CC: LLVM's programs if the compiler is clang, and the prefix
// of the other programs if they have one and the image has no plain names ("x86_64-cros-linux-gnu-ld").
func (j Job) toolArguments() []string {
	if v, ok := parseVersion(j.Compiler.Version); ok && v.family == "clang" {
		return []string{"LLVM=1", "LD=ld.lld"}
	}
	if prefix := toolPrefix(j.Compiler.Path, searchPath(filepath.Dir(j.Compiler.Path))); prefix != "" {
		return []string{"CROSS_COMPILE=" + prefix, "HOSTCC=" + j.Compiler.Path}
	}
	return nil
}

func (j Job) runMake(ctx context.Context, dir string, names []string) error {
	program, err := find("make", searchPath(filepath.Dir(j.Compiler.Path)))
	if err != nil {
		return fmt.Errorf("compile driver %s: %w", j.Driver, err)
	}
	log, err := os.OpenFile(j.Log, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return fmt.Errorf("open the log of the compile: %w", err)
	}
	defer log.Close()
	total := steps(j.Source, names)
	out := &output{log: &limitedWriter{w: log, left: maxLog}, progress: j.Progress, total: total}
	cmd := exec.Command(program, j.arguments(dir, names)...)
	cmd.Env = j.environment(dir)
	cmd.Dir = filepath.Join(dir, scratchSource)
	return j.watch(ctx, cmd, out, "make")
}

// watch runs a command, and fails also if the kernel killed a part of it that the command does not miss.
func (j Job) watch(ctx context.Context, cmd *exec.Cmd, out *output, what string) error {
	cmd.Stdout, cmd.Stderr = out, out
	before := j.Limits.oomKills()
	watched, end := j.Limits.withOOMWatch(ctx, before)
	err := run(watched, cmd)
	end()
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("compile driver %s for kernel %s: stopped: %w", j.Driver, j.Headers.Release, cause)
	}
	out.close()
	if after := j.Limits.oomKills(); after > before && before >= 0 {
		out.killed = true
		if err == nil || errors.Is(err, errOOMKill) {
			err = fmt.Errorf("the kernel killed %d of its programs for want of memory", after-before)
		}
	}
	if err != nil {
		return j.failed(what, err, out)
	}
	return nil
}

// failed returns the error for the end of a command, with the output of that command.
func (j Job) failed(what string, err error, out *output) error {
	e := &CompileError{
		Driver: j.Driver, Release: j.Headers.Release, Jobs: max(j.Jobs, 1),
		Tail: slices.Clone(out.tail), Errors: slices.Clone(out.errors), Log: j.Log, Killed: out.killed,
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && strings.Contains(exit.String(), "signal: killed") {
		e.Killed = true
	}
	e.Err = fmt.Errorf("%s failed: %w", what, err)
	if out.noSpace {
		e.Err = fmt.Errorf("%s failed: %w: %s: %w", what, err, j.Work, unix.ENOSPC)
	}
	return e
}
