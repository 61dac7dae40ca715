package rehearse

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/outfile"
	"github.com/driver-container/driver-container/images/rehearse/guest"
)

// keepLimit bounds what is asked of a guest at its end.
const keepLimit = time.Minute

// kept are the files of Request.Keep: what people look at after a failure.
type kept struct{ console, kernel, driver, status string }

// makeKeep makes the folder: a rehearsal takes minutes, and what it found has to be kept.
func (q Request) makeKeep() error {
	if q.Keep == "" {
		return nil
	}
	err := os.MkdirAll(q.Keep, 0o755)
	if err == nil {
		err = outfile.CheckFolder(q.Keep)
	}
	if err != nil {
		return failure.Errorf(failure.Usage, "--keep: %w", err)
	}
	return nil
}

// keep writes what is left of a rehearsal. Of a guest that is gone it is the console, and what the
// driver said before.
func (q Request) keep(ctx context.Context, r rehearsal, g *guest.Guest) error {
	if q.Keep == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepLimit)
	defer cancel()
	files := kept{console: g.Console(), status: r.lastStatus}
	for _, c := range r.containers {
		files.driver += c.Output() + "\n"
	}
	log, err := g.Dmesg(ctx)
	if err != nil {
		log = "The kernel's log was not read: " + err.Error() + "\n"
	}
	files.kernel = log
	return q.write(files)
}

// keepConsole writes the console of a guest that did not boot.
func (q Request) keepConsole(err error) error {
	boot, ok := errors.AsType[*guest.BootError](err)
	if !ok || q.Keep == "" {
		return nil
	}
	return q.write(kept{console: boot.Console})
}

// write takes the place of what an earlier rehearsal kept, all of it.
func (q Request) write(files kept) (err error) {
	for name, text := range map[string]string{
		"console.log":        files.console,
		"kernel.log":         files.kernel,
		"driver.log":         files.driver,
		"driver-status.json": files.status,
	} {
		err = errors.Join(err, os.WriteFile(filepath.Join(q.Keep, name), []byte(text), 0o644))
	}
	return err
}
