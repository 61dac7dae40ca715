package main

import (
	"log/slog"

	"github.com/driver-container/driver-container/node/logging"
)

// log returns the logger of the verbs, which writes to stderr.
func (p *program) log() *slog.Logger { return logging.New(p.stderr, p.logFormat) }
