package rehearse

import (
	"context"
	"strings"
	"time"

	"github.com/driver-container/driver-container/images/rehearse/guest"
)

// poison is a parameter that every driver's module refuses.
const (
	poison     = "NVreg_EnableMSI=nonsense\n"
	poisonFile = "/run/rehearse/nvidia.conf"
)

// again brings the previous driver up once more.
func (r *rehearsal) again(ctx context.Context) (outcome, error) {
	if !r.image.ours || !r.previous.ours {
		return skipped(notOurs), nil
	}
	if !r.idle {
		return skipped("the driver before did not end as it should"), nil
	}
	r.idle = false
	out, err := r.serve(ctx, *r.previous, &r.old)
	if err == nil && out.verdict != Failed {
		out.verdict = OK
	}
	return out, err
}

// rollback kills the previous driver's container, as a node's trouble does, and starts the new
// driver with a parameter that its module refuses: the previous driver has to serve again.
func (r *rehearsal) rollback(ctx context.Context) (outcome, error) {
	out, err := r.again(ctx)
	if err != nil || out.verdict != OK {
		return out, err
	}
	version, err := r.loadedVersion(ctx)
	if err != nil {
		return outcome{}, err
	}
	err = r.old.Kill(ctx)
	r.old = nil
	if err != nil {
		return outcome{}, err
	}
	err = r.node.Write(ctx, poisonFile, []byte(poison), 0o644)
	if err != nil {
		return outcome{}, err
	}
	refused := guest.Mount{Host: poisonFile, Guest: "/drivers/nvidia.conf", ReadOnly: true, File: true}
	p, err := r.start(ctx, r.image, refused)
	if err != nil {
		return outcome{}, err
	}
	const kernelRefused = 13 // docs/operate.md#exit-codes
	out, err = r.end(ctx, p, kernelRefused)
	if err != nil || out.verdict == Failed {
		return out, err
	}
	err = p.Kill(ctx)
	if err != nil {
		return outcome{}, err
	}
	st, err := r.status(ctx)
	if err != nil {
		return outcome{}, err
	}
	now, err := r.loadedVersion(ctx)
	if err != nil {
		return outcome{}, err
	}
	if st.State != "restored" || now != version {
		return failed("the state is %q, the kernel has %q: not %s again", st.State, now, version), nil
	}
	r.idle = true // for the previous driver, which adopts itself
	return ok("the kernel refused the new module (a parameter that is nonsense), and %s was loaded again", version), nil
}

// upgradeInUse upgrades while a program uses the previous driver: the new one has to wait for it.
func (r *rehearsal) upgradeInUse(ctx context.Context) (outcome, error) {
	out, err := r.again(ctx)
	if err != nil || out.verdict != OK {
		return out, err
	}
	out, err = r.leave(ctx, r.old)
	r.old = nil
	if err != nil || out.verdict == Failed {
		return out, err
	}
	version, err := r.loadedVersion(ctx)
	if err != nil {
		return outcome{}, err
	}
	r.driver, err = r.start(ctx, r.image)
	if err != nil {
		return outcome{}, err
	}
	line, out, err := r.await(ctx, r.driver, waitsOrReady, waitLimit)
	if err != nil || out.verdict == Failed {
		return out, err
	}
	now, err := r.loadedVersion(ctx)
	if err != nil {
		return outcome{}, err
	}
	if strings.Contains(line, "ready driver=") || now != version {
		return failed("the new driver did not wait for the program that uses %s", version), nil
	}
	err = r.release(ctx)
	if err != nil {
		return outcome{}, err
	}
	free := time.Now()
	out, err = r.awaitReady(ctx, r.driver, readyOrNot, waitLimit)
	if err != nil || out.verdict == Failed {
		return out, err
	}
	took := time.Since(free)
	out, err = r.stopNow(ctx, r.driver)
	if err != nil || out.verdict == Failed {
		return out, err
	}
	out, err = r.clean(ctx, "it waited for the program that used "+version+", and was ready when that had ended")
	out.took = took
	return out, err
}
