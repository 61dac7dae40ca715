package credentials

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/images/registry/transport"
)

// helperTimeout is how long a helper may take: it may ask the user to unlock a keyring.
var helperTimeout = 2 * time.Minute

// maxHelper bounds what is kept of a helper's output, in bytes.
const maxHelper = 256 << 10

// helperEntry is what helpers keep, see https://github.com/docker/docker-credential-helpers#credential-store-protocol.
type helperEntry struct {
	ServerURL, Username, Secret string
}

func (e helperEntry) config() authn.AuthConfig {
	if e.Username == "<token>" {
		return authn.AuthConfig{IdentityToken: e.Secret}
	}
	return authn.AuthConfig{Username: e.Username, Password: e.Secret}
}

// runHelper runs a helper program with an input, and returns what it says of a registry. What it writes on its
// error output is shown only if it fails, without secrets, on one line.
func runHelper(ctx context.Context, p Place, action, input, secret string) (got helperEntry, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, helperTimeout, fmt.Errorf("it took more than %v", helperTimeout))
	defer cancel()
	cmd := exec.CommandContext(ctx, p.Helper, action)
	out, complaint := &bounded.Buffer{Limit: maxHelper}, &bounded.Buffer{Limit: maxHelper}
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = strings.NewReader(input), out, complaint, time.Second
	err = cmd.Run()
	if action == "get" && json.Unmarshal(out.Kept, &got) != nil && err == nil {
		err = errors.New("it gave no credentials in JSON")
	}
	switch {
	case err == nil:
		return got, nil
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case errors.Is(err, exec.ErrNotFound):
		return helperEntry{}, fmt.Errorf("%s: %w: install it, or remove it from %s", p.Helper, exec.ErrNotFound, p.File)
	case action == "get" && strings.Contains(string(out.Kept), "credentials not found"): // as the protocol says it
		return helperEntry{}, nil
	}
	said := string(complaint.Kept)
	if got.Secret == "" { // else the output is the answer
		said = string(out.Kept) + " " + said
	}
	return helperEntry{}, fmt.Errorf("%s %s: %w: it said %q", p.Helper, action, err, withoutSecrets(said, secret, got.Secret))
}

// What looks like a secret: the value of a name that says so, the user of a URL; a long word with digits.
var (
	namedSecret = regexp.MustCompile(`(?i)((?:passw|secret|token|bearer|auth|key)\w*["']?\s*[:=]\s*["']?|bearer |basic )[^\s"',}]+|(://)[^\s/@]+@`)
	longWord    = regexp.MustCompile(`[\w+/=.-]{20,}`)
)

// withoutSecrets returns the text of a helper on one line, shortened, without the known secrets and what looks
// like one.
func withoutSecrets(text string, known ...string) string {
	for _, secret := range known {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	text = longWord.ReplaceAllStringFunc(namedSecret.ReplaceAllString(text, "$1$2***"), func(word string) string {
		if strings.ContainsAny(word, "0123456789") {
			return "***"
		}
		return word
	})
	return strings.Join(strings.Fields(transport.Clean(text)), " ")
}
