package rehearse

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// notOurs is why a row of an image of others is skipped.
const notOurs = "the image has no driver-entrypoint, so it has no status"

// startPrevious brings the previous driver up.
func (r *rehearsal) startPrevious(ctx context.Context) (outcome, error) {
	out, err := r.serve(ctx, *r.previous, &r.old)
	if err != nil || out.verdict == Failed {
		return out, err
	}
	version, err := r.loadedVersion(ctx)
	return ok("%s serves", version), err
}

// serve starts a container and waits until its driver serves.
func (r *rehearsal) serve(ctx context.Context, s subject, p *process) (outcome, error) {
	started, err := r.start(ctx, s)
	if err != nil {
		return outcome{}, err
	}
	line := scriptDone
	if s.ours {
		line = readyOrNot
	}
	out, err := r.awaitReady(ctx, started, line, time.Hour)
	if err != nil || out.verdict == Failed {
		return out, errors.Join(err, started.Kill(ctx))
	}
	*p = started
	return outcome{}, nil
}

// awaitReady waits until a driver serves. It fails when the driver is loaded and not ready.
func (r *rehearsal) awaitReady(
	ctx context.Context, p process, line func() *regexp.Regexp, limit time.Duration,
) (outcome, error) {
	text, out, err := r.await(ctx, p, line, limit)
	if strings.Contains(text, notReady) {
		return r.why(ctx, p, "the driver is loaded and not ready")
	}
	return out, err
}

// modules starts the driver and waits until it has its modules. A previous driver ends before, as
// the DaemonSet ends its pod.
func (r *rehearsal) modules(ctx context.Context) (outcome, error) {
	if r.previous != nil && r.old == nil {
		r.absent = "the previous driver does not serve"
	}
	if r.absent != "" {
		return r.unserved(), nil
	}
	if r.old != nil {
		r.replaced = time.Now()
		out, err := r.stopNow(ctx, r.old)
		r.old = nil
		if err != nil || out.verdict == Failed {
			r.absent = "the previous driver did not end"
			return out, err
		}
	}
	r.begun = time.Now()
	var err error
	r.driver, err = r.start(ctx, r.image)
	if err != nil {
		return outcome{}, err
	}
	if !r.image.ours {
		return skipped("its own script does that: see the row load"), nil
	}
	line, out, err := r.awaitModules(ctx)
	if err != nil {
		return out, err
	}
	if strings.Contains(line, "waiting for") {
		out, err = r.why(ctx, r.driver, "the driver waits for a fit node")
	}
	if err != nil || out.verdict == Failed {
		r.absent = "there are no modules"
		return out, err
	}
	compiled := strings.Contains(r.driver.Output(), "compiling driver=")
	switch {
	case compiled && r.emulated:
		return ok("compiled, by an emulated processor: a node is without a driver for a small part of this time"), nil
	case compiled:
		return ok("compiled: for so long a node without modules has no driver"), nil
	}
	return ok("found, nothing was compiled"), nil
}

// awaitModules waits until the driver has its modules, or waits for another node. It reports the
// steps of a compile.
func (r *rehearsal) awaitModules(ctx context.Context) (line string, out outcome, err error) {
	for {
		line, out, err = r.await(ctx, r.driver, modulesFound, compileLimit)
		steps := modulesFound().FindStringSubmatch(line)
		if len(steps) == 0 || steps[1] == "" {
			return line, out, err
		}
		done, _ := strconv.ParseInt(steps[1], 10, 64) // as many digits as fit
		total, _ := strconv.ParseInt(steps[2], 10, 64)
		r.step.Count(done, total)
	}
}

func (r *rehearsal) unserved() outcome { return skipped("there is no driver: %s", r.absent) }

// load waits until the kernel has the modules, and looks at what they made of it.
func (r *rehearsal) load(ctx context.Context) (outcome, error) {
	if r.absent != "" {
		return r.unserved(), nil
	}
	line := loaded
	if !r.image.ours {
		line = scriptDone
	}
	_, out, err := r.await(ctx, r.driver, line, waitLimit)
	if err != nil || out.verdict == Failed {
		r.absent = "it does not load"
		return out, err
	}
	version, err := r.loadedVersion(ctx)
	if err != nil {
		return outcome{}, err
	}
	if version == "" {
		r.absent = "it is not loaded"
		return failed("the container goes on, but the kernel has no module nvidia"), nil
	}
	value, err := r.taint(ctx)
	if err != nil {
		return outcome{}, err
	}
	all, unexpected := taintLetters(value &^ r.tainted)
	if unexpected != "" {
		return failed("%s is loaded, and the kernel is tainted with %s (%s)", version, unexpected, all), nil
	}
	return ok("%s is loaded; taint %s", version, all), nil
}

// taint reads the bits of the kernel's taint.
func (r *rehearsal) taint(ctx context.Context) (uint64, error) {
	text, err := r.shell(ctx, "cat /proc/sys/kernel/tainted")
	if err != nil {
		return 0, err
	}
	value, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read the taint of the guest's kernel: %w", err)
	}
	return value, nil
}

// loadedVersion is the version of the module nvidia in the kernel, "" if it is not there.
func (r *rehearsal) loadedVersion(ctx context.Context) (string, error) {
	return r.shell(ctx, "cat /sys/module/nvidia/version 2>/dev/null || true")
}

// ready waits until the driver serves.
func (r *rehearsal) ready(ctx context.Context) (outcome, error) {
	switch {
	case r.absent != "":
		return r.unserved(), nil
	case !r.image.ours:
		return ok("its script is done"), nil
	}
	out, err := r.awaitReady(ctx, r.driver, readyOrNot, waitLimit)
	if err != nil || out.verdict == Failed {
		r.absent = "it is not ready"
		return out, err
	}
	st, err := r.status(ctx)
	if err != nil {
		return outcome{}, err
	}
	var phases []string
	for _, p := range st.Phases {
		if p.Seconds >= 1 {
			phases = append(phases, fmt.Sprintf("%s %.0f s", p.Phase, p.Seconds))
		}
	}
	out = ok("%.1f s after the container's start", time.Since(r.begun).Seconds())
	if len(phases) > 0 {
		out.message += ": " + strings.Join(phases, ", ")
	}
	return out, nil
}

// upgraded says how long the node had no driver.
func (r *rehearsal) upgraded(context.Context) (outcome, error) {
	if r.absent != "" {
		return r.unserved(), nil
	}
	out := ok("from the end of the previous driver's pod to ready")
	out.took = time.Since(r.replaced)
	return out, nil
}
