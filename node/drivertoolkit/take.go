package drivertoolkit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/kmod/kbuild"
)

// Bounds of what the driver container takes over.
const (
	maxFiles = 64
	maxSet   = 2 << 30 // bytes of all files of one set
)

// take copies a set into Job.Work and checks the copy, which nobody else can change.
func (f folder) take(ctx context.Context, name string, j Job) (_ *kbuild.Set, err error) {
	dir := filepath.Join(j.Work, "toolkit")
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(filepath.Join(dir, name), 0o700)); err != nil {
		return nil, err
	}
	if err := f.copySet(path.Join(modulesDir, name), filepath.Join(dir, name)); err != nil {
		return nil, err
	}
	var key kbuild.Key
	set, err := kbuild.Cache{Dir: dir}.Find(ctx, func(k kbuild.Key) bool {
		key = k
		return k.String() == name && j.Fits(k)
	})
	if errors.As(err, new(*kbuild.CorruptError)) || ctx.Err() != nil {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("they are for driver %.40s (%.20s), kernel %.80s, or were compiled in another way", key.Driver, key.Flavour, key.Release)
	}
	if len(set.Certificate) > 0 {
		return nil, errors.New("they are signed, and the toolkit container has no key")
	}
	if slices.ContainsFunc([]string{key.Arch, key.Kernel, key.Compiler}, func(text string) bool { return plain(text) != text }) {
		return nil, fmt.Errorf("their %s has control characters", kbuild.ManifestName)
	}
	if err := set.Describe(); err != nil {
		return nil, err
	}
	return set, nil
}

// copySet copies the files of a set.
func (f folder) copySet(from, to string) error {
	d, err := f.root.OpenFile(from, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer d.Close()
	names, err := d.Readdirnames(maxFiles)
	if err != nil {
		return fmt.Errorf("it has no files: %w", err)
	}
	left := int64(maxSet)
	for _, name := range names {
		in, info, err := f.open(path.Join(from, name))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		defer in.Close()
		if left -= info.Size(); left < 0 {
			return fmt.Errorf("%s: they are larger than %d bytes", name, maxSet)
		}
		out, err := os.OpenFile(filepath.Join(to, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, io.LimitReader(in, info.Size())) // it may grow meanwhile
		if err = errors.Join(err, out.Close()); err != nil {
			return err
		}
	}
	return nil
}
