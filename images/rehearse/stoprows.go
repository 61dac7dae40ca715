package rehearse

import (
	"context"
	"strings"
)

// device is one that a holder opens.
const device = "/run/nvidia/driver/dev/nvidiactl"

// stopInUse stops the container while a program has a device open: the driver has to stay.
func (r *rehearsal) stopInUse(ctx context.Context) (outcome, error) {
	switch {
	case !r.image.ours:
		return skipped(notOurs), nil
	case r.absent != "":
		return r.unserved(), nil
	}
	serving, err := r.look(ctx)
	if err != nil {
		return outcome{}, err
	}
	r.loads, err = r.countLoads(ctx)
	if err != nil {
		return outcome{}, err
	}
	out, err := r.leave(ctx, r.driver)
	r.driver = nil
	r.absent = "it was not left in place"
	if err != nil || out.verdict == Failed {
		return out, err
	}
	now, err := r.look(ctx)
	if err != nil {
		return outcome{}, err
	}
	if changes := now.differences(serving); len(changes) > 0 {
		return failed("the driver in use was not left as it was: %s", strings.Join(changes, "; ")), nil
	}
	r.detached = true
	r.absent = "it was not adopted"
	return ok("left in place, complete, for the program that uses it"), nil
}

// leave opens a device of a driver and stops its container.
func (r *rehearsal) leave(ctx context.Context, p process) (outcome, error) {
	opened, err := r.node.Run(ctx, "sh", "-c", `exec 3<>"$1"`, "sh", device)
	if err != nil {
		return outcome{}, err
	}
	if opened.Code != 0 {
		return failed("no program can use the driver: %s", opened.Output), nil
	}
	r.holder, err = r.node.Hold(ctx, device)
	if err != nil {
		return outcome{}, err
	}
	out, err := r.stopNow(ctx, p)
	if err != nil || out.verdict == Failed {
		return out, err
	}
	st, err := r.status(ctx)
	if err != nil {
		return outcome{}, err
	}
	if st.State != "detached" {
		return failed("the driver in use is %q, not detached: %s", st.State, st.Reason), nil
	}
	return outcome{}, nil
}

// release ends the program that uses the driver.
func (r *rehearsal) release(ctx context.Context) error {
	if r.holder == nil {
		return nil
	}
	err := r.holder.Kill(ctx)
	r.holder = nil
	return err
}

// countLoads returns how often the driver was loaded since boot.
func (r *rehearsal) countLoads(ctx context.Context) (int, error) {
	text, err := r.node.Dmesg(ctx)
	return strings.Count(text, "loading NVIDIA UNIX"), err
}

// restart starts the container again: it has to adopt the driver that was left.
func (r *rehearsal) restart(ctx context.Context) (outcome, error) {
	switch {
	case !r.image.ours:
		return skipped(notOurs), nil
	case !r.detached:
		return r.unserved(), nil
	}
	out, err := r.serve(ctx, r.image, &r.driver)
	if err != nil || out.verdict == Failed {
		return out, err
	}
	r.absent = ""
	loads, err := r.countLoads(ctx)
	if err != nil {
		return outcome{}, err
	}
	if loads != r.loads || !strings.Contains(r.driver.Output(), "adopting") {
		return failed("the driver was loaded again instead of adopted"), nil
	}
	return ok("adopted: the program that uses it noticed nothing"), nil
}

// stop ends the driver when no program uses it: nothing has to stay.
func (r *rehearsal) stop(ctx context.Context) (outcome, error) {
	if r.absent != "" {
		return r.unserved(), r.release(ctx)
	}
	err := r.release(ctx)
	if err != nil {
		return outcome{}, err
	}
	out, err := r.stopNow(ctx, r.driver)
	r.driver = nil
	r.absent = "it was stopped"
	if err != nil || out.verdict == Failed {
		return out, err
	}
	return r.clean(ctx, "nothing is left")
}

// clean requires that the node is as it was before any driver.
func (r *rehearsal) clean(ctx context.Context, message string) (outcome, error) {
	now, err := r.look(ctx)
	if err != nil {
		return outcome{}, err
	}
	if left := now.differences(r.before); len(left) > 0 {
		return failed("the stop left %s", strings.Join(left, "; ")), nil
	}
	r.idle = true
	return ok("%s", message), nil
}
