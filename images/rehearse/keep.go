package rehearse

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/driver-container/driver-container/images/rehearse/guest"
)

// keepLimit bounds what is asked of a guest at its end.
const keepLimit = time.Minute

// keep writes what people look at after a failure into a folder: the guest's console, the kernel's
// log, and the last status and output of the driver. Of a guest that is gone it is the console.
func (q Request) keep(ctx context.Context, r rehearsal, g *guest.Guest) error {
	if q.Keep == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepLimit)
	defer cancel()
	files := map[string]string{"console.log": g.Console(), "driver-status.json": r.lastStatus}
	for _, c := range r.containers {
		files["driver.log"] += c.Output() + "\n"
	}
	log, err := g.Dmesg(ctx)
	if err == nil {
		files["kernel.log"] = log
	}
	err = os.MkdirAll(q.Keep, 0o755)
	if err != nil {
		return fmt.Errorf("--keep: %w", err)
	}
	for name, text := range files {
		err = errors.Join(err, os.WriteFile(filepath.Join(q.Keep, name), []byte(text), 0o644))
	}
	return err
}
