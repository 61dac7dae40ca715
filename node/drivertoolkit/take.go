package drivertoolkit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/kmod/kbuild"
)

// Bounds of what the driver container takes over.
const (
	maxManifest = 4 << 20
	maxSets     = 16      // that are looked at
	maxSet      = 2 << 30 // bytes of all modules of one
)

// earlier returns a set that fits, of an earlier run; nil if there is none. Sets that cannot be taken do not
// count: they are compiled again.
func (f folder) earlier(ctx context.Context, j Job) (*kbuild.Set, error) {
	d, err := f.root.Open(modulesDir)
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // the usual case: there is none
	}
	defer d.Close()
	names, err := d.Readdirnames(maxSets)
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // empty, or no folder
	}
	for _, name := range names {
		if strings.HasPrefix(name, ".") || !setName().MatchString(name) {
			continue
		}
		if set, err := f.take(ctx, name, "", j); err == nil {
			return set, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return nil, nil
}

// take copies a set into Job.Work and checks the copy, which nobody else can change. digest is that of the
// manifest, "" if it is not known.
func (f folder) take(ctx context.Context, name, digest string, j Job) (_ *kbuild.Set, err error) {
	raw, err := f.read(path.Join(modulesDir, name, kbuild.ManifestName), maxManifest)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kbuild.ManifestName, err)
	}
	if sum := sha256.Sum256(raw); digest != "" && hex.EncodeToString(sum[:]) != digest {
		return nil, errors.New("the manifest is not the one that was announced")
	}
	set, err := kbuild.ParseManifest(raw)
	if err != nil {
		return nil, err
	}
	switch {
	case set.Key.String() != name || !j.Fits(set.Key):
		return nil, fmt.Errorf("they are for driver %.40s (%.20s), kernel %.80s, or were compiled in another way", set.Key.Driver, set.Key.Flavour, set.Key.Release)
	case len(set.Certificate) > 0:
		return nil, errors.New("they are signed, and the toolkit container has no key")
	case slices.ContainsFunc([]string{set.Key.Arch, set.Key.Kernel, set.Key.Compiler}, func(text string) bool { return plain(text) != text }):
		return nil, fmt.Errorf("their %s has control characters", kbuild.ManifestName)
	}
	for i := range set.Omitted { // what a compiler said
		set.Omitted[i].Reason = plain(set.Omitted[i].Reason)
	}
	dir := filepath.Join(j.Work, "toolkit")
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700)); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	set.Dir = dir
	total := int64(0)
	for i := range set.Modules {
		m := &set.Modules[i]
		if total += m.Size; total > maxSet {
			return nil, fmt.Errorf("they are larger than %d bytes", maxSet)
		}
		m.Path = filepath.Join(dir, m.Name+".ko")
		if err := f.copyModule(ctx, path.Join(modulesDir, name, m.Name+".ko"), m); err != nil {
			return nil, fmt.Errorf("%s.ko: %w", m.Name, err)
		}
		if err := describe(m, set.Key, j); err != nil {
			return nil, fmt.Errorf("%s.ko: %w", m.Name, err)
		}
	}
	return set, nil
}

// copyModule copies a module and compares size and digest with the manifest's.
func (f folder) copyModule(ctx context.Context, from string, m *kbuild.File) error {
	in, info, err := f.open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	if info.Size() != m.Size {
		return fmt.Errorf("it has %d bytes, the manifest says %d", info.Size(), m.Size)
	}
	out, err := os.OpenFile(m.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	sum := sha256.New()
	buf, left := make([]byte, 256<<10), m.Size+1 // it may grow meanwhile
	_, err = io.CopyBuffer(io.MultiWriter(out, sum), readFunc(func(p []byte) (int, error) {
		if err := context.Cause(ctx); err != nil {
			return 0, err
		}
		if left == 0 {
			return 0, io.EOF
		}
		n, err := in.Read(p[:min(int64(len(p)), left)])
		left -= int64(n)
		return n, err
	}), buf)
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != m.SHA256 {
		return errors.New("its digest is not the manifest's")
	}
	return nil
}

// readFunc is an io.Reader.
type readFunc func(p []byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// describe replaces the manifest's description of a module with the module's own, and compares that with what
// is wanted.
func describe(m *kbuild.File, k kbuild.Key, j Job) error {
	info, err := kmod.ReadInfo(m.Path)
	if err != nil {
		return err
	}
	m.Info = info
	version := k.Driver
	if slices.ContainsFunc(j.Companions, func(c kbuild.Companion) bool { return c.Name == m.Name }) {
		version = "" // its own
	}
	if wrong := m.Mismatch(k.Release, version); wrong != "" {
		return fmt.Errorf("the module %s", wrong)
	}
	return nil
}

// compileError returns the error of the compile as if it had run here.
func (x *failure) compileError(dir string, j Job) error {
	cause := errors.New(x.Message + " (in the Driver Toolkit container)")
	if x.Full {
		cause = fmt.Errorf("%w: %w", cause, unix.ENOSPC)
	}
	return &kbuild.CompileError{Driver: j.Info.Driver, Release: j.Kernel, Jobs: x.Jobs, Killed: x.Killed, Errors: x.Errors, Tail: x.Tail,
		Log: filepath.Join(dir, logFile), Err: cause}
}

// manifestDigest returns the sha256 of the manifest of an entry.
func manifestDigest(f folder, name string) (string, error) {
	raw, err := f.read(path.Join(modulesDir, name, kbuild.ManifestName), maxManifest)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}
