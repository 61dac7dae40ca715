package rehearse

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/driver-container/driver-container/distros/lazyregexp"
)

// waitLimit is the longest that anything but a compile takes: a container that answers later hangs,
// also on an emulated processor.
const waitLimit = 10 * time.Minute

// compileLimit is the longest that a compile takes until it says how far it is. An emulated
// processor may need minutes for one file.
const compileLimit = time.Hour

// slowError is the cause of the end of a wait that took so long.
type slowError time.Duration

func (e slowError) Error() string { return "nothing came within " + time.Duration(e).String() }

// notReady is in the line of a driver that is loaded and does not serve.
const notReady = "not ready: "

// The lines of driver-entrypoint that are waited for, as ci/testkit/logtest has them.
var (
	modulesFound = lazyregexp.New(`phase finished phase=modules|waiting for a fit node|` +
		`compile progress done=(\d{1,9}) total=(\d{1,9})`)
	loaded       = lazyregexp.New(`phase finished phase=load`)
	readyOrNot   = lazyregexp.New(`\bready driver=|` + notReady)
	waitsOrReady = lazyregexp.New(`waiting to replace the driver|\bready driver=`)
	scriptDone   = lazyregexp.New(`Done, now waiting for signal`) // of NVIDIA's script
)

// await waits for a line of a driver's container. Without one, the outcome says why not.
func (r *rehearsal) await(
	ctx context.Context, p process, line func() *regexp.Regexp, limit time.Duration,
) (found string, out outcome, err error) {
	within, cancel := context.WithTimeoutCause(ctx, limit, slowError(limit))
	defer cancel()
	found, err = p.WaitLine(within, line())
	if err == nil {
		return found, outcome{}, nil
	}
	out, err = r.unexpected(ctx, within, p, err)
	return "", out, err
}

// end waits for the end of a container, which has to come with a code.
func (r *rehearsal) end(ctx context.Context, p process, want int) (out outcome, err error) {
	within, cancel := context.WithTimeoutCause(ctx, waitLimit, slowError(waitLimit))
	defer cancel()
	code, err := p.Wait(within)
	if err != nil {
		return r.unexpected(ctx, within, p, err)
	}
	if code != want {
		return r.why(ctx, p, fmt.Sprintf("the container ended with %d, not %d", code, want))
	}
	return outcome{}, nil
}

// stopNow ends a container with SIGTERM, which has to end it with 0, and cleans up after it.
func (r *rehearsal) stopNow(ctx context.Context, p process) (outcome, error) {
	err := p.Signal(ctx, syscall.SIGTERM)
	if err != nil {
		return outcome{}, err
	}
	out, err := r.end(ctx, p, 0)
	if err != nil {
		return outcome{}, err
	}
	return out, p.Kill(ctx)
}

// unexpected says why a wait ended: the container did, or it hangs. The rehearsal's own end and a
// guest that is gone are errors.
func (r *rehearsal) unexpected(ctx, within context.Context, p process, err error) (outcome, error) {
	if ctx.Err() != nil {
		return outcome{}, context.Cause(ctx)
	}
	slow, ok := errors.AsType[slowError](context.Cause(within))
	if ok {
		return r.why(ctx, p, slow.Error())
	}
	ended, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	code, waitErr := p.Wait(ended)
	if waitErr != nil { // it has not ended: there is another reason
		return outcome{}, err
	}
	return r.why(ctx, p, fmt.Sprintf("the container ended with %d", code))
}

// why is a failure, with the reason in the status of the driver, and the container's last lines.
func (r *rehearsal) why(ctx context.Context, p process, what string) (outcome, error) {
	st, err := r.status(ctx)
	if err != nil {
		return outcome{}, err
	}
	out := failed("%s", what)
	if st.Reason != "" {
		out.message += ": " + st.Reason
	}
	out.log = last(strings.Split(strings.TrimSpace(p.Output()), "\n"))
	return out, nil
}
