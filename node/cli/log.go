package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/driver-container/driver-container/kmod/kmsg"
)

// phaseKey is the attribute of a logger that names the phase of the start. The lines for people
// leave it out: a line of its own says when a phase is over.
const phaseKey = "phase"

// Log returns a logger that writes JSON if format is "json", and otherwise lines for people who
// read `kubectl logs`.
func Log(w io.Writer, format string) *slog.Logger {
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{ReplaceAttr: readable}))
	}
	return slog.New(&lines{out: w, mu: new(sync.Mutex)})
}

// readable writes durations as "1.2s", which JSON would have in nanoseconds.
func readable(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// lines writes one record as
//
//	2026-01-02T15:04:05.000Z warning: MESSAGE key=value key="two words": REASON: ERROR
//	| a line of a value that has several
//
// Reasons and errors are sentences. They are not quoted and stand at the end.
type lines struct {
	out io.Writer
	mu  *sync.Mutex // of out, also of the loggers that With makes
	own parts       // attributes of the logger
}

// parts are attributes in the order in which a line has them.
type parts struct{ pairs, reason, err, more string }

func (h *lines) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (h *lines) Handle(_ context.Context, r slog.Record) error {
	var line bytes.Buffer
	if !r.Time.IsZero() {
		line.WriteString(r.Time.UTC().Format("2006-01-02T15:04:05.000Z "))
	}
	switch {
	case r.Level >= slog.LevelError:
		line.WriteString("error: ")
	case r.Level >= slog.LevelWarn:
		line.WriteString("warning: ")
	}
	p := h.own
	r.Attrs(func(a slog.Attr) bool {
		p.add(a)
		return true
	})
	fmt.Fprintf(
		&line,
		"%s%s%s%s%s\n",
		kmsg.PrintableLines(r.Message),
		p.pairs,
		p.reason,
		p.err,
		p.more,
	)
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := h.out.Write(line.Bytes())
	return err
}

func (h *lines) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	for _, a := range attrs {
		if a.Key != phaseKey {
			with.own.add(a)
		}
	}
	return &with
}

// WithGroup is part of the interface; nothing logs groups.
func (h *lines) WithGroup(string) slog.Handler { return h }

func (p *parts) add(a slog.Attr) {
	value := kmsg.PrintableLines(text(a.Value.Resolve()))
	switch {
	case value == "" && (a.Key == "reason" || a.Key == "error"):
	case a.Key == "reason":
		p.reason += ": " + value
	case a.Key == "error":
		p.err += ": " + value
	case strings.Contains(value, "\n"):
		p.more += "\n| " + strings.ReplaceAll(strings.TrimSuffix(value, "\n"), "\n", "\n| ")
	default:
		p.pairs += " " + a.Key + "=" + quoted(value)
	}
}

func text(v slog.Value) string {
	if v.Kind() == slog.KindTime {
		return v.Time().UTC().Format(time.RFC3339)
	}
	if list, ok := v.Any().([]string); ok {
		return strings.Join(list, ", ")
	}
	return v.String()
}

// quoted quotes a value that would not be one word.
func quoted(value string) string {
	split := func(r rune) bool { return unicode.IsSpace(r) || r == '"' || !unicode.IsPrint(r) }
	if value == "" || strings.ContainsFunc(value, split) {
		return strconv.Quote(value)
	}
	return value
}
