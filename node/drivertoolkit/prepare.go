package drivertoolkit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/kmod/kbuild/buildtree"
	"github.com/driver-container/driver-container/node/modulebuild"
)

// Invite lets the toolkit container start, which waits for dir_prepared, and tells it that there is nothing
// to compile yet, or never: reason says why. What an earlier driver container asked for is withdrawn.
// Compiled modules stay.
func Invite(o Options, reason string) error {
	f, err := openFolder(o.Dir)
	if err != nil {
		return err
	}
	defer f.close()
	unlock, err := f.lock()
	if err != nil {
		return fmt.Errorf("use %s: %w", o.Dir, err)
	}
	defer unlock()
	run := randomName()
	if err := errors.Join(f.sweep(), f.lower(requestFile, prepared, started, built, broken, answerFile, driverDir)); err != nil {
		return fmt.Errorf("tidy %s: %w", o.Dir, err)
	}
	if err := f.putProgram(o.Program); err != nil {
		return err
	}
	if err := put(f, requestFile, request{Schema: schema, Run: run, Reason: reason}); err != nil {
		return err
	}
	return f.raise(prepared, run)
}

func (f folder) raise(flag, run string) error {
	return f.write(flag, 0o644, strings.NewReader(run+"\n"))
}

// putProgram copies this program into the folder. A child that is forked meanwhile would have the copy open
// for writing, and the toolkit container could not start it (ETXTBSY).
func (f folder) putProgram(file string) error {
	in, err := os.Open(cmp.Or(file, "/proc/self/exe"))
	if err != nil {
		return err
	}
	defer in.Close()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return f.write(Program, 0o755, in)
}

// putDriver copies what a compile needs of the image: driver.json, the sources of the flavour with their
// patches, and those of the companions. It replaces what was there.
func (f folder) putDriver(ctx context.Context, image string, info driverinfo.Description, flavour string, companions []kbuild.Companion) (err error) {
	temp := tempPrefix + randomName()
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("copy the driver's sources to %s: %w", f.dir, err), f.root.RemoveAll(temp))
		}
	}()
	if err := f.root.MkdirAll(path.Join(temp, path.Dir(driverinfo.Path)), 0o755); err != nil {
		return err
	}
	text, err := info.Encode()
	if err != nil {
		return err
	}
	if err := f.write(path.Join(temp, driverinfo.Path), 0o644, strings.NewReader(string(text))); err != nil {
		return err
	}
	folders := []string{modulebuild.Sources(info.Driver, flavour)}
	for _, c := range companions {
		folders = append(folders, c.Source)
	}
	for _, dir := range folders {
		to := path.Join(temp, dir)
		if err := f.root.MkdirAll(path.Dir(to), 0o755); err != nil {
			return err
		}
		if err := buildtree.CopyTree(ctx, filepath.Join(image, dir), f.root, to); err != nil {
			return err
		}
	}
	if err := f.root.RemoveAll(driverDir); err != nil {
		return err
	}
	return f.root.Rename(temp, driverDir)
}
