// Package logtest has loggers for tests.
package logtest

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/node/cli"
)

// New returns a logger that writes to the test's output.
func New(t testing.TB) *slog.Logger { return cli.Log(t.Output(), "text") }

// Log keeps the lines of a logger.
type Log struct{ tool.Buffer }

// Logger returns a logger that writes lines, as people see them.
func (l *Log) Logger() *slog.Logger { return cli.Log(l, "text") }

// Lines returns what was written, a line each.
func (l *Log) Lines() []string {
	if text := l.String(); text != "" {
		return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	}
	return nil
}
