package buildkit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"unicode"
)

// maxWords bounds what an error quotes of a program's stderr, in bytes.
const maxWords = 1 << 10

// program connects to a daemon through kubectl, docker, podman, nerdctl or ssh: it runs "buildctl
// dial-stdio" beside the daemon, and its stdin and stdout are the connection. BuildKit's own
// helpers start it, without a shell; this type says why it ended. The methods of nil are those of
// an address without a program.
type program struct {
	address, name, byHand string
	connect               func(context.Context, string) (net.Conn, error)

	mu   sync.Mutex
	last error // how the program of the newest connection ended; nil while it runs
}

// find looks for the program in PATH.
func (p *program) find() error {
	if p == nil {
		return nil
	}
	if _, err := exec.LookPath(p.name); err != nil {
		return fmt.Errorf(
			"the address %q of a buildkitd needs the program %s on this machine: %w: install %s, or give a daemon at tcp://HOST:PORT",
			p.address,
			p.name,
			err,
			p.name,
		)
	}
	return nil
}

// dial starts the program. gRPC passes its address.
func (p *program) dial(ctx context.Context, address string) (net.Conn, error) {
	p.set(nil)
	if err := p.find(); err != nil {
		return nil, err
	}
	c, err := p.connect(ctx, address)
	if err != nil {
		return nil, fmt.Errorf(
			"start %s for the connection to buildkitd at %s: %w",
			p.name,
			p.address,
			err,
		)
	}
	return conn{c, p}, nil
}

func (p *program) set(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = err
}

// reason returns how the program ended, because gRPC's own error about it is long and has no type,
// and err if none has ended.
func (p *program) reason(err error) error {
	if p == nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last != nil {
		return p.last
	}
	return err
}

// conn is a connection that notes how its program ended.
type conn struct {
	net.Conn
	program *program
}

func (c conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	return n, c.program.note(err)
}

// Write reads when the program takes nothing any more: the caller closes the connection at once
// when a write fails, and the program's last words would be lost.
func (c conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil {
		_, end := c.Conn.Read(make([]byte, 1))
		_ = c.program.note(end)
	}
	return n, err
}

// note keeps the error of a program that has ended, in our words, and returns it. It returns other
// errors as they are, such as the end of a stream after the program has succeeded.
func (p *program) note(err error) error {
	ended := p.explain(err)
	if ended == nil {
		return err
	}
	p.set(ended)
	return ended
}

// explain reads the error of BuildKit's helper, which is only text. It returns nil for other
// errors.
func (p *program) explain(err error) error {
	_, rest, ok := strings.Cut(fmt.Sprint(err), "] has exited with ")
	if !ok {
		return nil
	}
	status, _, _ := strings.Cut(rest, ",")
	_, words, _ := strings.Cut(rest, "stderr=")
	text := p.name + " ended with " + status
	if line := oneLine(words); line != "" {
		text += ": " + line
	}
	return errors.New(text + ": " + p.advice())
}

// klog is a line of kubectl's log, which says the same as its last line in more words.
var klog = regexp.MustCompile(`(?m)^[EWI]\d{4} .*\n`)

// oneLine returns the end of a text without characters that could change a terminal.
func oneLine(text string) string {
	words := strings.FieldsFunc(
		klog.ReplaceAllString(text, ""),
		func(r rune) bool { return r == ' ' || !unicode.IsPrint(r) },
	)
	clean := strings.Join(words, " ")
	if len(clean) > maxWords {
		clean = "..." + strings.ToValidUTF8(clean[len(clean)-maxWords:], "")
	}
	return clean
}

// advice is what to do about a program whose words are not enough; docs/build.md says what the
// frequent ones mean.
func (p *program) advice() string {
	return "try by hand whether this works and asks nothing: " + p.byHand
}
