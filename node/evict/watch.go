package evict

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/driver-container/driver-container/node/status"
)

// watch reads the driver's status file when its metadata has changed. Without a change a read costs one
// system call.
type watch struct {
	run  string
	log  *slog.Logger
	last os.FileInfo
	st   status.Snapshot
	err  string // why the file could not be read, logged once
}

const statusFile = "driver-status.json"

// read returns the present status; without a State when there is no file.
func (w *watch) read() status.Snapshot {
	info, err := os.Stat(filepath.Join(w.run, statusFile))
	if err == nil && w.last != nil && os.SameFile(info, w.last) && info.ModTime().Equal(w.last.ModTime()) && info.Size() == w.last.Size() {
		return w.st
	}
	w.last, w.st = nil, status.Snapshot{}
	if err == nil {
		w.st, err = status.Read(w.run)
	}
	text := ""
	switch {
	case err == nil:
		w.last = info // if the file changed after this call of Stat, it is read once more
	case !errors.Is(err, fs.ErrNotExist):
		text = err.Error()
	}
	if text != w.err && text != "" {
		w.log.Warn("status file not read", "error", err)
	}
	w.err = text
	return w.st
}

// pause waits; it returns false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
