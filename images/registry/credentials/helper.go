package credentials

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// helperTimeout is how long a helper may take: it may ask the user to unlock a keyring.
const helperTimeout = 2 * time.Minute

// helperEntry is what a helper gets to keep, see
// https://github.com/docker/docker-credential-helpers#credential-store-protocol.
type helperEntry struct {
	ServerURL, Username, Secret string
}

// runHelper starts a helper program. input is a text or a JSON document.
func runHelper(ctx context.Context, p Place, action string, input any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, helperTimeout, fmt.Errorf("it took more than %v", helperTimeout))
	defer cancel()
	text, ok := input.(string)
	if !ok {
		raw, err := json.Marshal(input)
		if err != nil {
			return err
		}
		text = string(raw)
	}
	cmd := exec.CommandContext(ctx, p.Helper, action)
	cmd.Stdin, cmd.WaitDelay = strings.NewReader(text), time.Second
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%s: %w: install it, or remove it from %s", p.Helper, exec.ErrNotFound, p.File)
	}
	message := strings.Join(strings.Fields(string(out)), " ")
	return fmt.Errorf("%s %s: %w: %.300q", p.Helper, action, err, message)
}
