package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/docker/cli/cli/config/configfile"
	helper "github.com/docker/docker-credential-helpers/client"
	"github.com/docker/docker-credential-helpers/credentials"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"

	"github.com/driver-container/driver-container/distros/bounded"
)

// helperTimeout is how long a helper may take: it may ask the user to unlock a keyring.
var helperTimeout = 2 * time.Minute

// maxHelper bounds what is kept of a helper's output, in bytes.
const maxHelper = 256 << 10

// helperOf returns the program that keeps the credentials of a registry, and the name that it knows
// the registry by. program is "" if there is none.
func helperOf(file *configfile.ConfigFile, host string) (program, key string) {
	names := []string{host}
	if host == name.DefaultRegistry {
		names = []string{authn.DefaultAuthKey, "docker.io", host}
	}
	for _, known := range names {
		if file.CredentialHelpers[known] != "" {
			return file.CredentialHelpers[known], known
		}
	}
	return file.CredentialsStore, names[0]
}

// askHelper asks the helper program that a file names for the credentials of a registry. Nothing
// that it prints is shown, because that may be a secret.
func askHelper(
	ctx context.Context,
	file *configfile.ConfigFile,
	host string,
) (authn.AuthConfig, error) {
	none := authn.AuthConfig{}
	suffix, key := helperOf(file, host)
	if suffix == "" {
		return none, nil
	}
	if strings.ContainsRune(suffix, filepath.Separator) {
		return none, fmt.Errorf(
			"it names the helper program %q, which is no name of a program",
			suffix,
		)
	}
	program := &helperProgram{name: "docker-credential-" + suffix}
	ctx, cancel := context.WithTimeoutCause(
		ctx,
		helperTimeout,
		fmt.Errorf("it took more than %v", helperTimeout),
	)
	defer cancel()
	answer, err := helper.Get(func(arguments ...string) helper.Program {
		program.command = exec.CommandContext(ctx, program.name, arguments...)
		return program
	}, key)
	if credentials.IsErrCredentialsNotFound(err) {
		return none, nil
	}
	if err != nil {
		return none, program.explain(ctx)
	}
	if answer.Username == "<token>" { // as the protocol says it
		return authn.AuthConfig{IdentityToken: answer.Secret}, nil
	}
	return authn.AuthConfig{Username: answer.Username, Password: answer.Secret}, nil
}

// helperProgram is a helper with a deadline and bounds.
type helperProgram struct {
	name    string
	command *exec.Cmd
	failure error
}

// Input gives the helper its stdin.
func (p *helperProgram) Input(in io.Reader) { p.command.Stdin = in }

// Output runs the helper.
func (p *helperProgram) Output() ([]byte, error) {
	out := &bounded.Buffer{Limit: maxHelper}
	p.command.Stdout = out
	p.command.WaitDelay = time.Second
	p.failure = p.command.Run()
	return out.Kept, p.failure
}

// explain says why the helper gave no credentials.
func (p *helperProgram) explain(ctx context.Context) error {
	if errors.Is(p.failure, exec.ErrNotFound) {
		return fmt.Errorf(
			"%s: %w: install it, or remove it from that file",
			p.name,
			exec.ErrNotFound,
		)
	}
	try := "see what it says with: " + p.name + " list"
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w: %s", p.name, context.Cause(ctx), try)
	}
	if p.failure == nil {
		return fmt.Errorf("%s gave no credentials in JSON: %s", p.name, try)
	}
	return fmt.Errorf("%s: %w: %s", p.name, p.failure, try)
}
