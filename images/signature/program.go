package signature

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"encoding/base64"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/driver-container/driver-container/distros/bounded"
)

const (
	maxOutput    = 16 << 10 // bytes of a signature, as a program prints it
	maxComplaint = 1 << 10  // bytes of a program's error output that a message quotes

	programTime = 2 * time.Minute // for a signature: a person may have to touch a token
	// after the program's end, for children of it that hold its output open
	outputTime = 5 * time.Second
)

// Program signs with a program that the user names: the client of a key management service, for
// example. It gets the message on its standard input and prints the signature, raw or in base64. It
// runs without a shell and without arguments, in the environment of this process.
type Program struct {
	Path string
	Key  crypto.PublicKey // of the program; nil: not known, and its signatures are not verified
	Time time.Duration    // for one signature; 0: two minutes
}

// Public returns the key that was given.
func (p Program) Public() crypto.PublicKey { return p.Key }

// Sign runs the program once.
func (p Program) Sign(ctx context.Context, message []byte) ([]byte, error) {
	limit := cmp.Or(p.Time, programTime)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it took more than %s", limit))
	defer cancel()
	cmd := exec.CommandContext(ctx, p.Path)
	out := &bounded.Buffer{Limit: maxOutput}
	complaint := &bounded.Buffer{Limit: maxComplaint}
	cmd.Stdin = bytes.NewReader(message)
	cmd.Stdout = out
	cmd.Stderr = complaint
	cmd.WaitDelay = outputTime
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case out.More:
		err = fmt.Errorf("its output has more than %d bytes, which is no signature", maxOutput)
	}
	signature, malformed := plainSignature(out.Kept)
	err = cmp.Or(err, malformed)
	if err == nil {
		return signature, nil
	}
	text := strings.TrimSpace(string(complaint.Kept))
	if text != "" {
		err = fmt.Errorf("%w: it said %q", err, text)
	}
	return nil, fmt.Errorf("sign with the program %s: %w", p.Path, err)
}

// plainSignature accepts a signature as it is or in base64. Signatures look random, so none of at
// least 64 bytes is base64 by chance.
func plainSignature(out []byte) ([]byte, error) {
	text := string(bytes.Join(bytes.Fields(out), nil))
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		raw = out
	}
	if len(raw) < 64 {
		return nil, fmt.Errorf("it gave %d bytes, which is no signature", len(raw))
	}
	return raw, nil
}
