package lab

import (
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/require"
)

// Console is the serial line of a guest with Firmware.Debian, with a keyboard for the test. Its
// methods end the test when they fail.
type Console struct {
	t    testing.TB
	conn net.Conn
	mu   sync.Mutex
	text strings.Builder // all output so far
	seen int             // how much of words' result Wait has matched
	news chan struct{}

	patience Patience // zero while the guest boots for the first time
}

// Keys that are not characters, as a terminal sends them.
const (
	KeyEnter = "\r"
	KeyDown  = "\x1b[B"
)

// keyPause is the pause that programs of the firmware need between keys: they recognise the end of
// an escape sequence by time.
const keyPause = 700 * time.Millisecond

func newConsole(t testing.TB, conn net.Conn) *Console {
	c := &Console{t: t, conn: conn, news: make(chan struct{})}
	go c.receive() // until QEMU ends
	return c
}

func (c *Console) receive() {
	part := make([]byte, 16<<10)
	for {
		n, err := c.conn.Read(part)
		c.mu.Lock()
		c.text.Write(part[:n])
		close(c.news)
		c.news = make(chan struct{})
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

var escapes = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`)

// words returns the text without colours and cursor positions.
func (c *Console) words() (text string, news chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return escapes.ReplaceAllString(c.text.String(), ""), c.news
}

// Wait waits for text that matches and that comes after Wait's last match.
func (c *Console) Wait(pattern string, limit time.Duration) string {
	c.t.Helper()
	re := regexp.MustCompile(pattern)
	timer := time.NewTimer(c.patience.Limit(limit))
	defer timer.Stop()
	for {
		text, news := c.words()
		if at := re.FindStringIndex(text[min(c.seen, len(text)):]); at != nil {
			found := text[c.seen:][at[0]:at[1]]
			c.seen += at[1]
			return found
		}
		select {
		case <-news:
		case <-timer.C:
			c.t.Fatalf(
				"the console has nothing like %q after %s; it says:\n%s",
				pattern,
				limit,
				tail(text),
			)
		}
	}
}

// Type presses keys, one after the other.
func (c *Console) Type(keys ...string) {
	c.t.Helper()
	for _, k := range keys {
		<-time.After(keyPause)
		require.Value(c.conn.Write([]byte(k)))(c.t)
	}
}
