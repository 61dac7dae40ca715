package kbuild

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/lazyregexp"
)

// scratchCompanions is the folder of the copies of companions' sources, below the scratch folder.
const scratchCompanions = "companions"

// unfitError says why a companion cannot be compiled for this kernel. It fails neither the other modules nor
// the compile.
type unfitError struct{ why string }

func (e *unfitError) Error() string { return e.why }

func unfit(format string, args ...any) error { return &unfitError{fmt.Sprintf(format, args...)} }

// addCompanions compiles the companions against the driver's finished tree and adds them to the set, or the
// reason why one is left out. It fails only for what has nothing to do with the companion: want of memory or
// space, ctx, files.
func (j Job) addCompanions(ctx context.Context, dir string, set *Set) error {
	for _, c := range j.Companions {
		if total := steps(j.Source, j.Modules); j.Progress != nil && total > 0 {
			j.Progress(total-1, total, "companion "+c.Name)
		}
		file, err := j.companion(ctx, dir, set.Dir, c)
		reason, left := omitted(err)
		switch {
		case err == nil:
			set.Modules = append(set.Modules, file)
		case left:
			set.Omitted = append(set.Omitted, Omission{c.Name, tidyReason(reason, filepath.Join(dir, scratchCompanions, c.Name))})
		default:
			return fmt.Errorf("companion %s %s: %w", c.Name, c.Version, err)
		}
	}
	return nil
}

// omitted returns the reason for leaving a companion out. ok is false for errors that another attempt may not
// have.
func omitted(err error) (reason string, ok bool) {
	if own, is := errors.AsType[*unfitError](err); is {
		return own.why, true
	}
	if failed, is := errors.AsType[*CompileError](err); is && !failed.Killed && !errors.Is(err, unix.ENOSPC) {
		return append(slices.Clone(failed.Errors), failed.Err.Error())[0], true
	}
	return "", false
}

// tidyReason makes one short line of a reason, the same for every scratch folder.
func tidyReason(reason, dir string) string {
	reason = strings.Join(strings.Fields(strings.ToValidUTF8(strings.ReplaceAll(reason, dir+"/", ""), "?")), " ")
	return strings.ToValidUTF8(reason[:min(len(reason), maxReason)], "")
}

// companion compiles one companion and returns its module, which is in the folder to.
func (j Job) companion(ctx context.Context, dir, to string, c Companion) (File, error) {
	build, known := companionBuilds[c.Name]
	if !known || !moduleName().MatchString(c.Name) {
		return File{}, fmt.Errorf("%w: no companion of this name is known", &SourceError{c.Source, os.ErrInvalid})
	}
	nvidia := filepath.Join(dir, scratchSource, "nvidia")
	if !isFile(filepath.Join(nvidia, "nv-p2p.h")) {
		return File{}, unfit("the sources of driver %s have no nvidia/nv-p2p.h", j.Driver)
	}
	source := filepath.Join(dir, scratchCompanions, c.Name)
	if err := os.MkdirAll(filepath.Dir(source), 0o755); err != nil {
		return File{}, err
	}
	if err := copySources(ctx, c.Source, source); err != nil {
		return File{}, &SourceError{c.Source, err}
	}
	args, err := build.prepare(ctx, j, c, dir, source)
	if err != nil {
		return File{}, err
	}
	module := filepath.Join(source, build.folder)
	args = append([]string{
		"-C", j.Headers.Build, "-j" + strconv.Itoa(max(j.Jobs, 1)), "M=" + module, "modules", "CC=" + j.Compiler.Path,
		"NVIDIA_SRC_DIR=" + nvidia, "KBUILD_EXTRA_SYMBOLS=" + filepath.Join(dir, scratchSource, "Module.symvers"),
	}, append(args, j.toolArguments()...)...)
	if err := j.runCompanion(ctx, dir, c, "make", module, args, nil, nil); err != nil {
		return File{}, err
	}
	made, file := filepath.Join(module, c.Name+".ko"), filepath.Join(to, c.Name+".ko")
	if !isFile(made) {
		return File{}, unfit("make succeeded, but made no %s.ko", c.Name)
	}
	if err := j.strip(ctx, dir, made, file); err != nil {
		return File{}, err
	}
	f, err := readFile(c.Name, file)
	if err != nil {
		return File{}, err
	}
	if err := j.acceptCompanion(f); err != nil {
		return File{}, errors.Join(err, os.Remove(file))
	}
	return f, nil
}

// acceptCompanion compares a companion's own description with the job. A companion has a version of its own.
func (j Job) acceptCompanion(f File) error {
	wrong := f.Mismatch(j.Headers.Release, "")
	switch {
	case wrong != "":
		return unfit("the module that was made %s", wrong)
	case slices.ContainsFunc(f.Info.Depends, func(name string) bool { return name != "nvidia" && strings.HasPrefix(name, "nv") }):
		return unfit("the module that was made depends on %s, which is not of this driver", strings.Join(f.Info.Depends, ", "))
	}
	return nil
}

// runCompanion runs one program of a companion's compile. Its output is added to the log; result, which may
// be nil, gets it too.
func (j Job) runCompanion(ctx context.Context, dir string, c Companion, program, folder string, args, env []string, result *bytes.Buffer) error {
	if !filepath.IsAbs(program) {
		path, err := find(program, searchPath(filepath.Dir(j.Compiler.Path)))
		if err != nil {
			return err
		}
		program = path
	}
	log, err := os.OpenFile(j.Log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("open the log of the compile: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(program, args...)
	cmd.Env = append(j.environment(dir, filepath.Join(dir, scratchCompanions, c.Name)+"=/usr/src/"+c.Name+"-"+c.Version), env...)
	cmd.Dir = folder
	out := &output{log: &limitedWriter{w: log, left: maxLog}}
	if result != nil {
		out.log = io.MultiWriter(&limitedWriter{w: result, left: maxLine}, out.log)
	}
	step := filepath.Base(program)
	if step == "bash" {
		step = filepath.Base(args[0])
	}
	return j.watch(ctx, cmd, out, c.Name+": "+step)
}

// companionBuild says what is special about a companion's compile.
type companionBuild struct {
	folder string // with the Makefile of the module, in the sources
	// prepare makes what make needs in the copy of the sources, and returns further arguments of make.
	prepare func(ctx context.Context, j Job, c Companion, dir, source string) ([]string, error)
}

var companionBuilds = map[string]companionBuild{
	driverinfo.NvidiaFS: {".", prepareNvidiaFS},
	driverinfo.GDRDrv:   {"src/gdrdrv", prepareGDRDrv},
}

var gdsVersion = lazyregexp.New(`^[0-9A-Za-z._-]{1,32}$`)

// prepareNvidiaFS runs the package's own configure, which asks with small compiles what the kernel has. It
// looks for the headers below /lib/modules only, so the copy is told their place.
func prepareNvidiaFS(ctx context.Context, j Job, c Companion, dir, source string) ([]string, error) {
	configure := filepath.Join(source, "configure")
	if err := replaceText(configure, "KDIR=$MODULES_DIR/build", "KDIR="+j.Headers.Build); err != nil {
		return nil, err
	}
	// Its interpreter reads it: a program that was just written may be "busy", while a fork of ours still has it open.
	if err := j.runCompanion(ctx, dir, c, "bash", source, []string{configure, j.Headers.Release}, []string{j.makeFlags()}, nil); err != nil {
		return nil, err
	}
	// Every kernel has access_ok in one of two forms. A configure whose compiles all fail reports success.
	found := bounded.Head(filepath.Join(source, "config-host.h"), 64<<10)
	if !bytes.Contains(found, []byte("HAVE_ACCESS_OK_2_PARAMS 1")) && !bytes.Contains(found, []byte("HAVE_ACCESS_OK_3_PARAMS 1")) {
		return nil, unfit("its configure found no form of access_ok: its test compiles do not work here")
	}
	version := strings.TrimSpace(string(bounded.Head(filepath.Join(source, "GDS_VERSION"), 256)))
	if !gdsVersion().MatchString(version) {
		return nil, unfit("its file GDS_VERSION has %.40q, which is no version", version)
	}
	return []string{
		"CONFIG_NVFS_STATS=y", "CONFIG_NVFS_BATCH_SUPPORT=y",
		"KCPPFLAGS=-DCONFIG_NVFS_STATS=y -DGDS_VERSION=" + version + " -DNVFS_ENABLE_KERN_RDMA_SUPPORT -DNVFS_BATCH_SUPPORT=y",
	}, nil
}

// makeFlags names the compiler to makes that a package's own script starts, without arguments of ours: in
// MAKEFLAGS definitions count as arguments.
func (j Job) makeFlags() string {
	return "MAKEFLAGS=" + strings.Join(append([]string{"CC=" + j.Compiler.Path}, j.toolArguments()...), " ")
}

// maxTests bounds how many tests of the kernel a companion's package has; gdrcopy has three.
const maxTests = 32

// prepareGDRDrv runs the package's own tests of the kernel, each of which answers y or n, and takes
// nv-p2p-dummy.ko out of the Makefile: it exports the same functions as nvidia.ko and would be the module
// that gdrdrv depends on.
func prepareGDRDrv(ctx context.Context, j Job, c Companion, dir, source string) ([]string, error) {
	if err := replaceText(filepath.Join(source, "src/gdrdrv/Makefile"), "obj-m := nv-p2p-dummy.o", "obj-m :="); err != nil {
		return nil, err
	}
	tests, err := filepath.Glob(filepath.Join(source, "scripts/test_gdrdrv_HAVE_*.sh"))
	if err != nil || len(tests) == 0 || len(tests) > maxTests {
		return nil, unfit("its package has %d scripts scripts/test_gdrdrv_HAVE_*.sh", len(tests))
	}
	var args []string
	if j.Flavour == driverinfo.Open {
		args = append(args, "NVIDIA_IS_OPENSOURCE=y")
	}
	for _, test := range tests {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(test), "test_gdrdrv_"), ".sh")
		if err := replaceText(test, `kdir="/lib/modules/${kver}/build"`, "kdir="+j.Headers.Build); err != nil {
			return nil, err
		}
		var answer bytes.Buffer
		if err := j.runCompanion(ctx, dir, c, test, source, []string{"-k", j.Headers.Release}, []string{j.makeFlags()}, &answer); err != nil {
			return nil, err
		}
		switch got := strings.TrimSpace(answer.String()); got {
		case "y", "n":
			args = append(args, name+"="+got)
		default:
			return nil, unfit("its test %s answers %.40q, not y or n", filepath.Base(test), got)
		}
	}
	return args, nil
}

// maxScript bounds a script or Makefile of a companion whose text is replaced.
const maxScript = 1 << 20

// replaceText replaces a text in a file of the copied sources, which must have it.
func replaceText(path, old, text string) error {
	content, err := bounded.File(path, maxScript)
	if err != nil {
		return unfit("its %s cannot be read: %v", filepath.Base(path), errors.Unwrap(err))
	}
	if !bytes.Contains(content, []byte(old)) {
		return unfit("its %s has no %q: it is not the one of a version that is known", filepath.Base(path), old)
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, bytes.ReplaceAll(content, []byte(old), []byte(text)), info.Mode())
}
