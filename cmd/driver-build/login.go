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

func newLoginCmd(a *session.App) *cobra.Command {
	var user string
	var stdin bool
	cmd := &cobra.Command{
		Use: "login REGISTRY -u USER", Short: "Log in to a registry", Long: loginLong, Args: cobra.ExactArgs(1),
		Example: "  driver-build login registry.example.com -u ci --password-stdin <password.txt",
		RunE:    func(cmd *cobra.Command, args []string) error { return login(cmd.Context(), a, args[0], user, stdin) },
	}
	cmd.Flags().StringVarP(&user, "username", "u", "", "`USER`, or the name of a token")
	cmd.Flags().BoolVar(&stdin, "password-stdin", false, "read the password from stdin")
	return cmd
}

func login(ctx context.Context, a *session.App, host, user string, stdin bool) error {
	if err := imagename.CheckRegistry(host); err != nil {
		return session.Usagef("login: %w", err)
	}
	if user == "" {
		return session.Usagef("login: give the user with -u USER")
	}
	raw, err := password(ctx, a, "password of "+user+" for "+host+": ", stdin)
	if err != nil {
		return err
	}
	if len(raw) == 0 || len(raw) > maxPassword {
		return session.Usagef("login: a password has 1 to %d bytes", maxPassword)
	}
	if err := a.With(ctx, nil, nil, func(ctx context.Context, s *session.Session) error {
		return s.Registry.CheckLogin(ctx, host, user, string(raw))
	}); err != nil {
		return err
	}
	place, err := registry.StoreCredentials(ctx, host, user, string(raw))
	if err != nil {
		return err
	}
	a.Notes(fmt.Sprintf("logged in to %s as %s; the password is in %s", host, user, place))
	return nil
}

func newLogoutCmd(a *session.App) *cobra.Command {
	return &cobra.Command{
		Use: "logout REGISTRY", Short: "Remove the credentials of a registry", Args: cobra.ExactArgs(1),
		Long:    "Remove the credentials of a registry from where login keeps them.",
		Example: "  driver-build logout registry.example.com",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := imagename.CheckRegistry(args[0]); err != nil {
				return session.Usagef("logout: %w", err)
			}
			place, found, err := registry.EraseCredentials(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			text := fmt.Sprintf("%s has no credentials of %s", place, args[0])
			if found {
				text = fmt.Sprintf("the credentials of %s are removed from %s", args[0], place)
			}
			a.Notes(text)
			return nil
		},
	}
}

// maxPassword bounds a password, in bytes: tokens of cloud providers have a few thousand.
const maxPassword = 64 << 10

// password reads the password from stdin, or asks for it on a terminal, without echo.
func password(ctx context.Context, a *session.App, question string, stdin bool) (raw []byte, err error) {
	if stdin {
		raw, err = io.ReadAll(io.LimitReader(a.Input(ctx), maxPassword+1))
		if err != nil {
			err = fmt.Errorf("read the password from stdin: %w", err)
		}
		return bytes.TrimSuffix(bytes.TrimSuffix(raw, []byte("\n")), []byte("\r")), err
	}
	file, ok := a.Stdin.(*os.File)
	if !ok || !session.IsTerminal(file) {
		return nil, session.Usagef("login: stdin is no terminal to ask for the password: give --password-stdin")
	}
	fd := int(file.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return nil, fmt.Errorf("read the password: %w", err)
	}
	fmt.Fprint(a.Stderr, question)
	// A terminal has no deadline: when ctx ends, the echo is turned on again, and the read ends with the process.
	read := make(chan func() ([]byte, error), 1)
	go func() {
		line, err := term.ReadPassword(fd)
		read <- func() ([]byte, error) { return line, err }
	}()
	select {
	case line := <-read:
		fmt.Fprintln(a.Stderr)
		return line()
	case <-ctx.Done():
		return nil, errors.Join(context.Cause(ctx), term.Restore(fd, before))
	}
}
