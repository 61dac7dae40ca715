package session

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/compression"
	"github.com/driver-container/driver-container/distros/dpkg"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/distros/pgp"
	"github.com/driver-container/driver-container/distros/rpm"
	"github.com/driver-container/driver-container/distros/rpm/rpmdb"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/driver"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/images/runfile"
	"github.com/driver-container/driver-container/images/verify"
)

// TestDiskFull: whatever finds a disk full, the command says once what to do.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT} {
		var out strings.Builder
		a := &App{Stderr: &out, begun: true}
		root := &cobra.Command{Use: "x", RunE: func(*cobra.Command, []string) error {
			return &fs.PathError{Op: "write", Path: "/cache/x", Err: errno}
		}, SilenceErrors: true, SilenceUsage: true}
		assert.Equal(t, ExitUnexpected, a.Execute(t.Context(), root, nil))
		want := "driver-build: write /cache/x: " + errno.Error() + ": free some space, or name a folder of another disk (--cache, TMPDIR, or that of the output)\n"
		assert.Equal(t, want, out.String())
	}
}

func TestExitCode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("x"), 1},
		{Usage(errors.New("x")), 2}, {Usage(pgp.ErrSignature), 2}, {failure.Errorf(failure.Step, "tried: %w", pgp.ErrSignature), 5},
		{matrix.Errors{{Message: "x"}}, 2},
		{&matrix.IncompatibleError{}, 2},
		{assert.Err(distros.Lookup("x")), 2},
		{errors.Join(images.ErrSomeFailed, pgp.ErrSignature), 3},
		{fetch.ErrUnreachable, 4},
		{fetch.ErrOffline, 4},
		{&fetch.StatusError{Code: 500}, 4}, // fetch wraps it as ErrUnreachable
		{&registry.Error{Err: errors.New("x")}, 4},
		{&oci.PlatformError{}, 4},
		{&fetch.MismatchError{}, 5},
		{errors.Join(fetch.ErrUnreachable, &fetch.MismatchError{}), 5},
		{pgp.ErrSignature, 5}, {pgp.ErrExpired, 5}, {distros.ErrIndex, 5},
		{dpkg.ErrFormat, 5}, {dpkg.ErrUnsafePath, 5},
		{runfile.ErrHeader, 5}, {runfile.ErrPayload, 5}, {runfile.ErrUnsafe, 5}, {runfile.ErrTooLarge, 5}, {runfile.ErrManifest, 5},
		{driver.ErrContent, 5}, {rootfs.ErrFormat, 5}, {rootfs.ErrUnsafePath, 5}, {rootfs.ErrTooLarge, 5}, {compression.ErrDamaged, 5},
		{verify.ErrUnfit, 5},
		{&distros.UnresolvableError{}, 6}, {distros.ErrSources, 6}, {rpm.ErrRollback, 5}, {rpmdb.ErrFormat, 5}, {rpmfile.ErrFormat, 5},
		{rpmfile.ErrUnsafePath, 5}, {rpmfile.ErrSignature, 5}, {rpmfile.ErrDigest, 5},
		{SignalError{Signal: syscall.SIGINT}, 130}, {SignalError{Signal: syscall.SIGTERM}, 143},
	} {
		err := c.err
		if err != nil {
			err = fmt.Errorf("deep: %w", err)
		}
		assert.Equalf(t, c.want, ExitCode(err), "%T %v", c.err, c.err)
	}
}
