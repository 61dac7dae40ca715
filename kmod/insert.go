//go:build linux

package kmod

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/u-root/u-root/pkg/kmodule"
	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/kmod/kmsg"
)

// insertGrace is how long a load that has begun may continue after the context's end. The start of
// a module cannot be undone half way, and most take under a second: so the caller learns the
// outcome instead of guessing it.
const insertGrace = 10 * time.Second

// ErrChanged says that a module file is not the one that was verified.
var ErrChanged = errors.New("the file has changed since it was verified")

// Insert loads a module file with parameters, each "name=value". The module's dependencies must be
// loaded already. The file is opened once: the kernel gets the file that was compared with its
// digest (sha256 in hexadecimal; "" for none), also when its path leads to another one by then.
// Errors: ErrLoaded when a module of this name is loaded; ErrChanged; *RefusedError with the
// kernel's messages when the kernel refuses it; ErrStuck with the context's error when the kernel
// has not answered 10 s after the context's end (the load goes on and the module shows as coming).
func (s System) Insert(ctx context.Context, path, digest string, params []string) error {
	name := nameOfFile(path)
	fail := func(err error) error { return fmt.Errorf("load the module %s from %s: %w", name, path, err) }
	text, err := joinParams(params)
	if err != nil {
		return fail(err)
	}
	f, kind, err := openVerified(path, digest)
	if err != nil {
		return fail(err)
	}
	if ctx.Err() != nil {
		f.Close()
		return fail(ctx.Err())
	}
	if s.load == nil {
		s.load = load
	}
	mark, _ := kmsg.Open(s.Kmsg) //nolint:errcheck // without the kernel's log the error number must suffice
	defer mark.Close()           //nolint:errcheck // only read from
	done := make(chan error, 1)
	go func() { // ends with the system call
		defer f.Close()
		done <- s.load(f, kind, text)
	}()
	err = outcome(ctx, done)
	if err == nil {
		return nil
	}
	var errno unix.Errno
	switch {
	case errors.Is(err, ErrStuck) || !errors.As(err, &errno):
		return fail(err)
	case errno == unix.EEXIST:
		return fail(fmt.Errorf("%w (%w); unload it first, or go on with it when its srcversion is the same", ErrLoaded, errno))
	}
	return &RefusedError{Module: name, Path: path, Params: slices.Clone(params), Errno: errno, Kernel: mark.Lines(), Setting: s.Forbidden(name)}
}

// openVerified opens a module file whose content has a digest, and returns its compression too.
func openVerified(path, digest string) (f *os.File, kind string, err error) {
	f, kind, err = openRegular(path)
	if err != nil || digest == "" {
		return f, kind, err
	}
	sum := sha256.New()
	_, err = io.Copy(sum, io.NewSectionReader(f, 0, math.MaxInt64))
	got := hex.EncodeToString(sum.Sum(nil))
	switch {
	case err != nil:
	case got == digest:
		return f, kind, nil
	default:
		err = fmt.Errorf(
			"%w: it has sha256 %s and had %s; remove it and start again",
			ErrChanged,
			got,
			digest,
		)
	}
	f.Close()
	return nil, "", err
}

// load prefers kmodule.FileInit, whose finit_module tells the kernel which file it loads: LoadPin
// and IMA require that. Two kinds of files are unpacked here, because FileInit goes by a file's
// name and decompresses without a bound: compressed ones, which not every kernel unpacks itself,
// and ones that are not named .ko.
//
// go.mod stays at v0.14.0 of u-root: from v0.15.0 on FileInit reads plain files too and never calls
// finit_module. TestFileInitNamesTheFile sees that.
func load(f *os.File, kind, params string) error {
	if kind == "" && filepath.Ext(f.Name()) == ".ko" {
		return kmodule.FileInit(f, params, 0)
	}
	image, err := unpack(f, kind, maxUnpacked)
	if err != nil {
		return err
	}
	return kmodule.Init(image, params)
}

func outcome(ctx context.Context, done <-chan error) error {
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	timer := time.NewTimer(insertGrace)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return fmt.Errorf(
			"%w: %w; see dmesg, the machine may have to be restarted",
			ErrStuck,
			ctx.Err(),
		)
	}
}

// Delete unloads a module. It never forces and does not wait for references to go. It returns
// ErrInUse when the module is in use and an error that wraps fs.ErrNotExist when it is not loaded.
// The kernel runs the module's own code during the call, and that code can hang: call Delete where
// a hang does no harm.
func Delete(name string) error {
	if err := validName(name); err != nil {
		return err
	}
	err := kmodule.Delete(ModuleName(name), unix.O_NONBLOCK)
	switch {
	case errors.Is(err, unix.EAGAIN): // the kernel's answer to O_NONBLOCK when there are references or holders
		err = fmt.Errorf("%w (%w): something has its devices open or a module stands on it", ErrInUse, err)
	case errors.Is(err, unix.EBUSY):
		err = fmt.Errorf("%w (%w): it is starting or stopping, or cannot be unloaded at all", ErrInUse, err)
	case errors.Is(err, unix.EPERM):
		err = fmt.Errorf("%w: it needs CAP_SYS_MODULE (a privileged container) and kernel.modules_disabled=0", err)
	}
	if err != nil {
		return fmt.Errorf("unload the module %s: %w", name, err)
	}
	return nil
}
