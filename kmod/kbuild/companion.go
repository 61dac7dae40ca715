package kbuild

import (
	"bytes"
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

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/lazyregexp"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/kmod/kbuild/buildtree"
)

// Companion is a kernel module of another project that is compiled against the driver's modules:
// nvidia-fs or gdrdrv. Its file is in the set beside theirs.
type Companion struct {
	// of the module, by file name without ".ko": driverinfo.NvidiaFS, driverinfo.GDRDrv
	Name    string
	Version string
	Digest  string // of the archive or package that Source came from
	Source  string // the folder with its sources; never written
}

// ID returns what names the companion in a Key: equal IDs are equal sources.
func (c Companion) ID() string { return c.Name + " " + c.Version + " " + c.Digest }

func companionIDs(all []Companion) (ids []string) {
	for _, c := range all {
		ids = append(ids, c.ID())
	}
	return ids
}

// Omission is a companion that a set does not have.
type Omission struct {
	Module string `json:"module"` // Companion.Name
	Reason string `json:"reason"` // the first error of its compile, one line
}

const (
	maxCompanions = 8    // of a key, and omissions of a set
	maxReason     = 1024 // bytes of Omission.Reason
)

// OmittedReason returns why a set does not have a companion; "" if it has it, or if it was never
// asked for.
func (s *Set) OmittedReason(name string) string {
	i := slices.IndexFunc(s.Omitted, func(o Omission) bool { return kmod.ModuleName(o.Module) == kmod.ModuleName(name) })
	if i < 0 {
		return ""
	}
	return s.Omitted[i].Reason
}

// scratchCompanions is the folder of the copies of companions' sources, below the scratch folder.
const scratchCompanions = "companions"

// unfitError says why a companion cannot be compiled for this kernel. It fails neither the other
// modules nor the compile.
type unfitError struct{ why string }

func (e *unfitError) Error() string { return e.why }

func unfit(format string, args ...any) error { return &unfitError{fmt.Sprintf(format, args...)} }

// addCompanions compiles the companions against the driver's finished tree and adds them to the
// set, or the reason why one is left out. It fails only for what has nothing to do with the
// companion: want of memory or space, ctx, files.
func (c *compile) addCompanions(ctx context.Context, set *Set) error {
	for _, companion := range c.Companions {
		c.report(c.total-1, "companion "+companion.Name)
		file, err := c.companion(ctx, companion)
		reason, left := omitted(err)
		switch {
		case err == nil:
			set.Modules = append(set.Modules, file)
		case left:
			set.Omitted = append(set.Omitted, Omission{companion.Name, tidyReason(reason, c.copyOf(companion))})
		default:
			return fmt.Errorf("companion %s %s: %w", companion.Name, companion.Version, err)
		}
	}
	return nil
}

// omitted returns the reason for leaving a companion out. ok is false for errors that another
// attempt may not have.
func omitted(err error) (reason string, ok bool) {
	if own, is := errors.AsType[*unfitError](err); is {
		return own.why, true
	}
	_, ended := errors.AsType[*exec.ExitError](err)
	failed, is := errors.AsType[*CompileError](err)
	if !is || !ended || failed.Killed || errors.Is(err, unix.ENOSPC) {
		return "", false
	}
	return append(slices.Clone(failed.Errors), failed.Err.Error())[0], true
}

// tidyReason makes one short line of a reason, the same for every scratch folder.
func tidyReason(reason, dir string) string {
	reason = strings.Join(strings.Fields(strings.ToValidUTF8(strings.ReplaceAll(reason, dir+"/", ""), "?")), " ")
	return strings.ToValidUTF8(reason[:min(len(reason), maxReason)], "")
}

// copyOf is the folder with a copy of a companion's sources.
func (c *compile) copyOf(companion Companion) string {
	return filepath.Join(c.dir, scratchCompanions, companion.Name)
}

// companion compiles one companion and returns its module.
func (c *compile) companion(ctx context.Context, companion Companion) (File, error) {
	build, known := companionBuilds[companion.Name]
	if !known {
		return File{}, fmt.Errorf("no companion of this name is known: %w", os.ErrInvalid)
	}
	nvidia := filepath.Join(c.dir, scratchSource, "nvidia")
	if !kmod.IsFile(filepath.Join(nvidia, "nv-p2p.h")) {
		return File{}, unfit("the sources of driver %s have no nvidia/nv-p2p.h", c.Driver)
	}
	source := c.copyOf(companion)
	if err := buildtree.CopyTree(ctx, companion.Source, c.root, filepath.Join(scratchCompanions, companion.Name)); err != nil {
		return File{}, sourceError(companion.Source, err)
	}
	further, err := build.prepare(ctx, c, companion, source)
	if err != nil {
		return File{}, err
	}
	module := filepath.Join(source, build.folder)
	args := []string{
		"-C", c.Headers.Build, "-j" + strconv.Itoa(max(c.Jobs, 1)), "M=" + module, "modules", "CC=" + c.Compiler.Path,
		"NVIDIA_SRC_DIR=" + nvidia, "KBUILD_EXTRA_SYMBOLS=" + filepath.Join(c.dir, scratchSource, "Module.symvers"),
	}
	if err := c.runCompanion(ctx, companion, command{name: "make", program: "make", args: slices.Concat(args, further, c.toolArguments())}); err != nil {
		return File{}, err
	}
	f, err := c.strip(ctx, module, companion.Name)
	if errors.Is(err, errNotMade) {
		return File{}, unfit("%v", err)
	}
	if err != nil {
		return File{}, err
	}
	// A companion has a version of its own.
	wrong := f.Mismatch(c.Headers.Release, "")
	if slices.ContainsFunc(f.Info.Depends, func(name string) bool { return name != "nvidia" && strings.HasPrefix(name, "nv") }) {
		wrong = "depends on " + strings.Join(f.Info.Depends, ", ") + ", which is not of this driver"
	}
	if wrong != "" {
		return File{}, errors.Join(unfit("the module that was made %s", wrong), os.Remove(f.Path))
	}
	return f, nil
}

// runCompanion runs one program of a companion's compile, in the copy of its sources.
func (c *compile) runCompanion(ctx context.Context, companion Companion, what command) error {
	what.name = companion.Name + ": " + what.name
	what.folder = filepath.Join(scratchCompanions, companion.Name)
	what.prefixMap = c.copyOf(companion) + "=/usr/src/" + companion.Name + "-" + companion.Version
	return c.run(ctx, what)
}

// companionBuild says what is special about a companion's compile.
type companionBuild struct {
	folder string // with the Makefile of the module, in the sources
	// prepare makes what make needs in the copy of the sources, and returns further arguments of
	// make.
	prepare func(ctx context.Context, c *compile, companion Companion, source string) ([]string, error)
}

var companionBuilds = map[string]companionBuild{
	driverinfo.NvidiaFS: {".", prepareNvidiaFS},
	driverinfo.GDRDrv:   {"src/gdrdrv", prepareGDRDrv},
}

var gdsVersion = lazyregexp.New(`^[0-9A-Za-z._-]{1,32}$`)

// prepareNvidiaFS runs the package's own configure, which asks with small compiles what the kernel
// has. It looks for the headers below /lib/modules only, so the copy is told their place.
func prepareNvidiaFS(ctx context.Context, c *compile, companion Companion, source string) ([]string, error) {
	configure := filepath.Join(source, "configure")
	if err := replaceText(configure, "KDIR=$MODULES_DIR/build", "KDIR="+c.Headers.Build); err != nil {
		return nil, err
	}
	// Its interpreter reads it: a program that was just written may be "busy", while a fork of ours
	// still has it open.
	if err := c.runCompanion(ctx, companion, command{
		name: "configure", program: "bash", args: []string{configure, c.Headers.Release}, env: []string{c.makeFlags()},
	}); err != nil {
		return nil, err
	}
	// Every kernel has access_ok in one of two forms. A configure whose compiles all fail reports
	// success.
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

// makeFlags names the compiler to makes that a package's own script starts, without arguments of
// ours: in MAKEFLAGS definitions count as arguments.
func (j Job) makeFlags() string {
	return "MAKEFLAGS=" + strings.Join(append([]string{"CC=" + j.Compiler.Path}, j.toolArguments()...), " ")
}

// maxTests bounds how many tests of the kernel a companion's package has; gdrcopy has three.
const maxTests = 32

// prepareGDRDrv runs the package's own tests of the kernel, each of which answers y or n, and takes
// nv-p2p-dummy.ko out of the Makefile: it exports the same functions as nvidia.ko and would be the
// module that gdrdrv depends on.
func prepareGDRDrv(ctx context.Context, c *compile, companion Companion, source string) ([]string, error) {
	if err := replaceText(filepath.Join(source, "src/gdrdrv/Makefile"), "obj-m := nv-p2p-dummy.o", "obj-m :="); err != nil {
		return nil, err
	}
	tests, err := filepath.Glob(filepath.Join(source, "scripts/test_gdrdrv_HAVE_*.sh"))
	if err != nil || len(tests) == 0 || len(tests) > maxTests {
		return nil, unfit("its package has %d scripts scripts/test_gdrdrv_HAVE_*.sh", len(tests))
	}
	var args []string
	if c.Flavour == driverinfo.Open {
		args = append(args, "NVIDIA_IS_OPENSOURCE=y")
	}
	for _, test := range tests {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(test), "test_gdrdrv_"), ".sh")
		if err := replaceText(test, `kdir="/lib/modules/${kver}/build"`, "kdir="+c.Headers.Build); err != nil {
			return nil, err
		}
		answer := bounded.Buffer{Limit: maxLine}
		if err := c.runCompanion(ctx, companion, command{
			name: filepath.Base(test), program: "sh", args: []string{test, "-k", c.Headers.Release}, env: []string{c.makeFlags()}, also: &answer,
		}); err != nil {
			return nil, err
		}
		switch got := strings.TrimSpace(string(answer.Kept)); got {
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
