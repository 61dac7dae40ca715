package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/host"
	"github.com/driver-container/driver-container/node/shim"
)

// chosen is the environment variable by which a start tells the program of a baked driver that it
// was chosen, and why. The program then does not choose again.
const chosen = "BAKED_DRIVER_CHOICE"

// choose returns why the driver of this image serves, or was chosen. If a baked driver serves in
// its place, choose does not return: the process becomes the worker of that driver's image.
func (p *program) choose(ctx context.Context, cfg config.Config) (reason string, err error) {
	reason = p.getenv(chosen)
	if reason != "" {
		return reason, nil
	}
	complete(&cfg, p.env)
	choice, err := host.Choose(ctx, cfg, p.log())
	if err != nil || choice.Driver == "" {
		if choice.Reason != "" {
			p.log().Warn("no baked driver serves", "reason", choice.Reason)
		}
		return choice.Reason, err
	}
	p.log().Info("baked driver chosen", "driver", choice.Driver, "reason", choice.Reason)
	err = choice.Enter()
	if err != nil {
		return "", err
	}
	own := []string{ // the first of several values counts
		chosen + "=" + choice.Reason,
		"DRIVER_VERSION=" + choice.Driver,
		"DRIVER_BRANCH=" + strconv.Itoa(driverinfo.Branch(choice.Driver)),
		shim.Marker + "=" + strconv.Itoa(os.Getppid()),
	}
	err = unix.Exec(host.Program, os.Args, append(own, p.env...))
	return "", fmt.Errorf("start the baked driver %s: %w", choice.Driver, err)
}

// another reports whether a baked driver would serve in the place of this image's, and if not, why.
// Of a baked driver there is no way back to the image.
func (p *program) another(ctx context.Context, cfg config.Config) (reason string, other bool) {
	reason = p.getenv(chosen)
	if reason != "" {
		return reason, false
	}
	complete(&cfg, p.env)
	choice, err := host.Choose(ctx, cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return err.Error(), false
	}
	return choice.Reason, choice.Driver != ""
}
