package signedmodules

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/compression"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/kmod/kbuild"
)

// ErrPackaged means that packages with modules of the distribution's do not have what they should.
var ErrPackaged = failure.New(failure.Content, "the distribution's packages have no such modules")

func badPackage(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrPackaged, fmt.Errorf(format, args...))
}

// maxDistributed bounds a module of a distribution's, unpacked, in bytes. That of nvidia has 100 MB.
const maxDistributed = 512 << 20

var (
	kernelFile = regexp.MustCompile(`^(?:usr/)?lib/modules/([^/]+)/(.+)$`)
	moduleFile = regexp.MustCompile(`^([a-z][a-z0-9_-]*)\.ko(?:\.gz|\.xz|\.zst)?$`)
)

// findModules copies the driver's modules for a kernel out of the files of packages into dir, plain,
// and returns their names, and the names of other modules, which it leaves. The modules and their
// signatures stay as they are.
func findModules(
	ctx context.Context,
	release string,
	files []*rootfs.Entry,
	dir string,
) (names, others []string, err error) {
	var elsewhere []string
	for _, file := range files {
		place := kernelFile.FindStringSubmatch(file.Path)
		module := moduleFile.FindStringSubmatch(path.Base(file.Path))
		switch {
		case place == nil || module == nil || file.Kind != rootfs.File:
			continue
		case place[1] != release:
			elsewhere = append(elsewhere, place[1])
			continue
		case !slices.Contains(driverinfo.Modules(), module[1]):
			others = append(others, module[1])
			continue
		case slices.Contains(names, module[1]):
			return nil, nil, badPackage("they have %s.ko for kernel %s twice", module[1], release)
		}
		err := copyModule(ctx, file, filepath.Join(dir, module[1]+".ko"))
		if err != nil {
			return nil, nil, fmt.Errorf("module %s of the distribution: %w", file.Path, err)
		}
		names = append(names, module[1])
	}
	if len(names) == 0 {
		elsewhere = slices.Compact(slices.Sorted(slices.Values(elsewhere)))
		return nil, nil, badPackage("there is none for kernel %s in /lib/modules; there are modules for %.300q",
			release, elsewhere)
	}
	return names, others, nil
}

// copyModule writes the content of a module's file, which may be compressed.
func copyModule(ctx context.Context, file *rootfs.Entry, to string) (err error) {
	content, err := file.Open()
	if err != nil {
		return err
	}
	in := bufio.NewReaderSize(rootfs.Cancellable(ctx, content), 128<<10)
	kind, err := compression.Detect(in)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if kind == "" {
		_, err = io.Copy(out, in)
		return err
	}
	plain, err := compression.Stream{Limit: maxDistributed, Format: ErrPackaged}.Open(in, kind)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, plain)
	return errors.Join(err, plain.Close())
}

// newSet returns the set of modules of a folder. Each must be signed and what the key says;
// wanted are those that count, with none all do, and the driver's required ones must be there.
func newSet(key kbuild.Key, dir string, names, wanted []string) (*kbuild.Set, error) {
	for _, name := range append(driverinfo.RequiredModules(), wanted...) {
		if !slices.Contains(names, name) {
			return nil, badPackage("%s.ko for kernel %s is missing; there is %s",
				name, key.Release, strings.Join(names, ", "))
		}
	}
	set := &kbuild.Set{Dir: dir, Key: key}
	for _, name := range slices.Sorted(slices.Values(names)) {
		if len(wanted) > 0 && !slices.Contains(wanted, name) {
			continue
		}
		file := kbuild.File{Name: name, Path: filepath.Join(dir, name+".ko")}
		var err error
		file.SHA256, file.Size, err = kbuild.Digest(file.Path)
		if err != nil {
			return nil, err
		}
		set.Modules = append(set.Modules, file)
	}
	err := set.Describe()
	if err != nil {
		return nil, badPackage("modules for kernel %s: %w", key.Release, err)
	}
	for _, file := range set.Modules {
		if !file.Info.Signed || file.Info.SigHash == "" {
			return nil, badPackage("%s.ko for kernel %s has no signature, or a damaged one",
				file.Name, key.Release)
		}
		set.SigHash = file.Info.SigHash
	}
	return set, nil
}
