package dialstdio

import (
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"syscall"
	"time"
	"unicode"
)

// lastWords is the time that a program gets to say why it does not take what is sent to it.
const lastWords = 3 * time.Second

// maxWords is how much of a program's stderr an error quotes. BuildKit's helper keeps not much more.
const maxWords = 1 << 10

// EndedError says that the program ended which was the connection to a daemon.
type EndedError struct {
	Program string
	Status  string // "exit status 1"
	Words   string // the end of its stderr, in one line
	do      string
}

func (e *EndedError) Error() string {
	text := e.Program + " ended with " + e.Status
	if e.Words != "" {
		text += ": " + e.Words
	}
	return text + ": " + e.do
}

// conn is a connection that notes how its program ended.
type conn struct {
	net.Conn
	dialer *Dialer
	ended  chan struct{} // closed by the only reader
	over   bool          // of that reader
}

// Read is called by one goroutine at a time, as gRPC does.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == nil || c.over {
		return n, err
	}
	c.over = true
	defer close(c.ended)
	if e := c.dialer.explain(err); e != nil {
		c.dialer.set(e)
		err = e
	}
	return n, err
}

// Write waits for the reader if the program takes nothing any more: the caller closes the connection at once
// when a write fails, and the reason would be lost.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, os.ErrClosed) { // the helper closes stdin when the program has ended
		select {
		case <-c.ended:
		case <-time.After(lastWords):
		}
	}
	return n, err
}

// explain reads the error of BuildKit's helper, which is only text. It returns nil for other errors, such as
// the end of a stream after the program has succeeded.
func (d *Dialer) explain(err error) *EndedError {
	_, rest, ok := strings.Cut(err.Error(), "] has exited with ")
	if !ok {
		return nil
	}
	status, _, _ := strings.Cut(rest, ",")
	_, words, _ := strings.Cut(rest, "stderr=")
	e := &EndedError{Program: d.form.program, Status: status, Words: oneLine(words)}
	e.do = d.remedy(words)
	return e
}

// klog is a line of kubectl's log, which says the same as its last line in more words.
var klog = regexp.MustCompile(`(?m)^[EWI]\d{4} .*\n`)

// oneLine returns the end of a text without characters that could change a terminal.
func oneLine(text string) string {
	text = klog.ReplaceAllString(text, "")
	clean := strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)), " ")
	if len(clean) > maxWords {
		clean = "..." + strings.ToValidUTF8(clean[len(clean)-maxWords:], "")
	}
	return clean
}

func tryByHand(command []string) string {
	return fmt.Sprintf("try by hand whether this works and asks nothing: %s", strings.Join(command, " "))
}
