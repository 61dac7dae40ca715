package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/imagename"
	"github.com/driver-container/driver-container/images/registry"
)

const loginLong = `Ask a registry whether it accepts a user and a password, and keep them where docker login keeps them: in the file
$REGISTRY_AUTH_FILE or else in Docker's config.json, or in the helper program that this file names. Without a helper the password is
readable in that file, which only you can read. Docker, Podman and others use the same credentials.

The password is asked for without echo, or read from stdin. REGISTRY has no default, so that no password goes to another registry.`

// loginFlags are the flags of the command login.
type loginFlags struct {
	user  string
	stdin bool
}

func newLoginCmd(a *session.App) *cobra.Command {
	var o loginFlags
	cmd := &cobra.Command{
		Use: "login REGISTRY -u USER", Short: "Log in to a registry", Long: loginLong, Args: session.ExactArgs(1),
		Example: "  driver-build login registry.example.com -u ci --password-stdin <password.txt",
		RunE:    func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), a, args[0]) },
	}
	cmd.Flags().StringVarP(&o.user, "username", "u", "", "user, or the name of a token")
	cmd.Flags().BoolVar(&o.stdin, "password-stdin", false, "read the password from stdin")
	return cmd
}

func (o *loginFlags) run(ctx context.Context, a *session.App, host string) error {
	if err := imagename.CheckRegistry(host); err != nil {
		return session.Usagef("login: %w", err)
	}
	if o.user == "" {
		return session.Usagef("login: give the user with -u USER")
	}
	password, err := o.password(ctx, a, host)
	if err != nil {
		return err
	}
	if err := a.With(ctx, nil, nil, func(ctx context.Context, s *session.Session) error {
		return s.Registry.CheckLogin(ctx, host, o.user, password)
	}); err != nil {
		return err
	}
	place, err := registry.StoreCredentials(ctx, host, o.user, password)
	if err != nil {
		return err
	}
	a.Notes(fmt.Sprintf("logged in to %s as %s; the password is in %s", host, o.user, place))
	return nil
}

func newLogoutCmd(a *session.App) *cobra.Command {
	return &cobra.Command{
		Use: "logout REGISTRY", Short: "Remove the credentials of a registry", Args: session.ExactArgs(1),
		Long:    "Remove the credentials of a registry from where login keeps them.",
		Example: "  driver-build logout registry.example.com",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := imagename.CheckRegistry(args[0]); err != nil {
				return session.Usagef("logout: %w", err)
			}
			place, found, err := registry.EraseCredentials(cmd.Context(), args[0])
			switch {
			case err != nil:
				return err
			case !found:
				a.Notes(fmt.Sprintf("%s has no credentials of %s", place, args[0]))
			default:
				a.Notes(fmt.Sprintf("the credentials of %s are removed from %s", args[0], place))
			}
			return nil
		},
	}
}

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
