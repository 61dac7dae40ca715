package main

import (
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
)

// logger returns a function that writes one line for each message, as driver-entrypoint does.
func logger(w io.Writer, format string) func(format string, args ...any) {
	if format == "json" {
		logger := slog.New(slog.NewJSONHandler(w, nil))
		return func(format string, args ...any) { logger.Info(fmt.Sprintf(format, args...)) } //nolint:sloglint // the message has no attributes
	}
	var mu sync.Mutex
	return func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(w, "%s %s\n", time.Now().UTC().Format("2006-01-02T15:04:05.000Z"), fmt.Sprintf(format, args...))
	}
}
