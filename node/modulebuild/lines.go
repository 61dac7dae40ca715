package modulebuild

import (
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/driver-container/driver-container/kmod/kbuild"
)

// LogOutput logs the last lines that a failed compile printed.
func LogOutput(log *slog.Logger, err error) {
	if failed, ok := errors.AsType[*kbuild.CompileError](err); ok {
		log.Info("last lines of the compile", "count", len(failed.Tail), "output", strings.Join(failed.Tail, "\n")+"\n")
	}
}

// Progress returns a function that logs every ten seconds how far a compile is (kbuild.Job.Progress).
func Progress(log *slog.Logger) func(done, total int, what string) {
	const every = 10 * time.Second
	begin := time.Now()
	logged := begin
	return func(done, total int, what string) {
		if time.Since(logged) < every {
			return
		}
		logged = time.Now()
		log.Info("compile progress", "done", done, "total", total, "duration", logged.Sub(begin).Round(time.Second), "step", what)
	}
}
