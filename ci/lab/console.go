package lab

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/require"
)

// Console is the serial line of a guest with Firmware.Debian, with a keyboard for the test. Its
// methods end the test when they fail.
type Console struct {
	guest *Guest
	seen  int // how much of the text Wait has matched
}

// Keys that are not characters, as a terminal sends them.
const (
	KeyEnter = "\r"
	KeyDown  = "\x1b[B"
)

// keyPause is the pause that programs of the firmware need between keys: they recognise the end of
// an escape sequence by time.
const keyPause = 700 * time.Millisecond

// Wait waits for text that matches and that comes after Wait's last match.
func (c *Console) Wait(pattern string, limit time.Duration) (found string) {
	c.guest.t.Helper()
	re := regexp.MustCompile(pattern)
	text := ""
	over := !c.guest.Within(limit, func() bool {
		text = c.guest.guest.Console()
		at := re.FindStringIndex(text[min(c.seen, len(text)):])
		if at == nil {
			return false
		}
		found = text[c.seen:][at[0]:at[1]]
		c.seen += at[1]
		return true
	})
	if over {
		c.guest.t.Fatalf("the console has nothing like %q after %s; it says:\n%s", pattern, limit, tail(text))
	}
	return found
}

// Type presses keys, one after the other.
func (c *Console) Type(keys ...string) {
	c.guest.t.Helper()
	for _, k := range keys {
		<-time.After(keyPause)
		require.NoError(c.guest.t, c.guest.guest.Type(k))
	}
}

// keepConsole writes the console's text to a folder that outlives a failed test, and returns the
// path.
func keepConsole(t testing.TB, text string) string {
	name := strings.ReplaceAll(t.Name(), "/", "-") + ".console"
	path := filepath.Join(CacheDir(t), "failed", name)
	err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644))
	if err != nil {
		return err.Error()
	}
	return path
}
