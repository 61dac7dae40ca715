package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/driver-container/driver-container/distros/bounded"
)

// helperTimeout is how long a helper may take: it may ask the user to unlock a keyring.
var helperTimeout = 2 * time.Minute

// maxHelper bounds what is kept of a helper's output, in bytes.
const maxHelper = 256 << 10

// helperEntry is what helpers keep, see https://github.com/docker/docker-credential-helpers#credential-store-protocol.
type helperEntry struct {
	ServerURL, Username, Secret string
}

// runHelper runs a helper program, which a file names, with an input, and returns what it says of a registry. What it
// prints is shown only if it fails, and then only words that cannot be a secret.
func runHelper(ctx context.Context, file, program, action, input, secret string) (auth.Credential, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, helperTimeout, fmt.Errorf("it took more than %v", helperTimeout))
	defer cancel()
	cmd := exec.CommandContext(ctx, program, action)
	out, complaint := &bounded.Buffer{Limit: maxHelper}, &bounded.Buffer{Limit: maxHelper}
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = strings.NewReader(input), out, complaint, time.Second
	err := cmd.Run()
	var got helperEntry
	if action == "get" && json.Unmarshal(out.Kept, &got) != nil && err == nil {
		err = errors.New("it gave no credentials in JSON")
	}
	switch {
	case err == nil && got.Username == "<token>": // as the protocol says it
		return auth.Credential{RefreshToken: got.Secret}, nil
	case err == nil:
		return auth.Credential{Username: got.Username, Password: got.Secret}, nil
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case errors.Is(err, exec.ErrNotFound):
		return auth.EmptyCredential, fmt.Errorf("%s: %w: install it, or remove it from %s", program, exec.ErrNotFound, file)
	case action == "get" && strings.Contains(string(out.Kept), "credentials not found"): // as the protocol says it
		return auth.EmptyCredential, nil
	}
	said := string(complaint.Kept)
	if got.Secret == "" { // else the output is the answer
		said = string(out.Kept) + " " + said
	}
	if secret != "" {
		said = strings.ReplaceAll(said, secret, "***")
	}
	return auth.EmptyCredential, fmt.Errorf("%s %s: %w: it said %q", program, action, err, harmless(said))
}

var (
	word      = regexp.MustCompile(`^[A-Za-z'(]{1,20}[,.:;)!]?$`)
	announces = regexp.MustCompile(`(?i)passw|secret|token|bearer|basic`) // the next word may be a secret
)

// harmless returns a text on one line, shortened, with *** in place of each word that may be a secret: all that are
// not of letters only.
func harmless(text string) string {
	words := strings.Fields(text)
	for i, w := range words {
		if !word.MatchString(w) || i > 0 && announces.MatchString(words[i-1]) {
			words[i] = "***"
		}
	}
	return printable(strings.Join(words, " "))
}
