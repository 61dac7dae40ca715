package logincmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/driver-container/driver-container/cmd/driver-build/session"
)

// maxPassword bounds a password, in bytes: tokens of cloud providers have a few thousand.
const maxPassword = 64 << 10

// password reads the password from stdin, or asks for it on a terminal.
func (o *loginFlags) password(ctx context.Context, a *session.App, registry string) (string, error) {
	var raw []byte
	var err error
	terminal, ok := a.Stdin.(*os.File)
	ok = ok && term.IsTerminal(int(terminal.Fd()))
	switch {
	case o.stdin:
		if raw, err = io.ReadAll(io.LimitReader(a.Input(ctx), maxPassword+1)); err != nil {
			return "", fmt.Errorf("read the password from stdin: %w", err)
		}
		raw = bytes.TrimSuffix(bytes.TrimSuffix(raw, []byte("\n")), []byte("\r"))
	case !ok:
		return "", session.Usagef("login: stdin is no terminal to ask for the password: give --password-stdin")
	default:
		fmt.Fprintf(a.Stderr, "password of %s for %s: ", o.user, registry)
		raw, err = readHidden(ctx, terminal)
		fmt.Fprintln(a.Stderr)
		if err != nil {
			return "", fmt.Errorf("read the password: %w", err)
		}
	}
	if len(raw) == 0 || len(raw) > maxPassword {
		return "", session.Usagef("login: a password has 1 to %d bytes", maxPassword)
	}
	return string(raw), nil
}

// readHidden reads a line without echo. When ctx ends, it turns the echo on again; the read itself ends with
// the process then, because a terminal has no deadline.
func readHidden(ctx context.Context, terminal *os.File) ([]byte, error) {
	fd := int(terminal.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return nil, err
	}
	type answer struct {
		line []byte
		err  error
	}
	read := make(chan answer, 1)
	go func() {
		line, err := term.ReadPassword(fd)
		read <- answer{line, err}
	}()
	select {
	case a := <-read:
		return a.line, a.err
	case <-ctx.Done():
		return nil, errors.Join(context.Cause(ctx), term.Restore(fd, before))
	}
}
