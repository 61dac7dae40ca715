package evict

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/driver-container/driver-container/node"
)

// Agent frees one node for its pod's driver, whenever that asks for it.
type Agent struct {
	cfg   Config
	core  corev1client.CoreV1Interface
	say   func(format string, args ...any)
	rest  func()
	watch watch

	unsettled bool      // a record may stand on the node: not looked yet, or it could not be put back
	freed     string    // instance of the driver that was told to go on
	other     string    // pod that was seen at work on this node
	next      time.Time // the cluster is not asked before

	said   map[string]said // by reason
	events map[string]told // by kind of object and reason
	silent map[string]bool // kinds of objects whose Events failed, which was said
}

// New makes an agent. say gets one line a call; rest, if not nil, is called when the work of an upgrade is over and the memory that
// it took may go back.
func New(cfg Config, core corev1client.CoreV1Interface, say func(format string, args ...any), rest func()) *Agent {
	if rest == nil {
		rest = func() {}
	}
	return &Agent{cfg: cfg, core: core, say: say, rest: rest, watch: watch{run: cfg.Run, say: say}, unsettled: true,
		said: map[string]said{}, events: map[string]told{}, silent: map[string]bool{}}
}

const (
	idle       = 2 * time.Second  // between looks at the status file, which cost nothing
	every      = 2 * time.Second  // between looks at the cluster while pods end
	askAgain   = 10 * time.Second // until the cluster is asked again: whether the annotation is there by now, or a budget lets go
	othersTurn = 30 * time.Second // until another pod's record is looked at again
	lastCalls  = 20 * time.Second // for putting back when this process has to end
)

// Run works until ctx ends. Then it puts back what stands; the error is that this failed, and the node needs the next instance.
// Nothing else ends it: without the cluster it tries again.
func (a *Agent) Run(ctx context.Context) error {
	a.say("waiting for driver of pod %s/%s on node %s to ask for a free node", a.cfg.Namespace, a.cfg.Pod, a.cfg.Node)
	for a.round(ctx); pause(ctx, idle); {
		a.round(ctx)
	}
	if !a.unsettled {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastCalls)
	defer cancel()
	done, err := a.putBack(ctx, a.notMine)
	if err != nil {
		return fmt.Errorf("at the end: %w; the next instance of this pod does it, or see the annotation %s of node %s", err, Annotation, a.cfg.Node)
	}
	if done != "" {
		a.say("put back: %s", done)
	}
	return nil
}

func (a *Agent) notMine(r record) bool { return r.UID != a.cfg.UID }

// round is one look. It asks the cluster only when the driver waits for it, or when something may have to be put back.
func (a *Agent) round(ctx context.Context) {
	st := a.watch.look()
	if !a.asks(st) && !a.unsettled {
		a.next = time.Time{}
		return
	}
	if time.Now().Before(a.next) || ctx.Err() != nil {
		return
	}
	wait, err := a.act(ctx, st)
	if err != nil && ctx.Err() == nil {
		a.tell(ctx, reasonFailed, "%v", err)
	}
	a.next = time.Now().Add(wait + rand.N(wait/4+1)) //nolint:gosec // jitter: nodes of a cluster that failed together
	a.rest()
}

// act does what there is to do and says when to look again.
func (a *Agent) act(ctx context.Context, st node.Status) (time.Duration, error) {
	if a.unsettled {
		if wait, err := a.settle(ctx, st); wait > 0 || err != nil {
			return wait, err
		}
	}
	if !a.asks(st) {
		return 0, nil
	}
	n, err := a.getNode(ctx)
	if err != nil {
		return askAgain, err
	}
	if asker := n.Annotations[SafeLoad]; asker != a.cfg.Pod && (asker != "" || a.freed == "" || a.freed != st.Instance) {
		return askAgain, nil // the driver has not asked yet, or is not the one that was let go on
	}
	l, err := a.sweep(ctx, toPause(n.Labels), true)
	if err != nil {
		return askAgain, err
	}
	if len(l.refused) > 0 {
		a.tell(ctx, reasonBlocked, "driver %s waits for node %s to be free, and nothing is evicted yet: %s", st.Wanted, a.cfg.Node, l)
		return min(askAgain, a.cfg.RetryAfter), nil
	}
	return a.cfg.RetryAfter, a.attempt(ctx)
}

// settle deals with a record that stands on the node. Ours: this process was killed in the middle, and goes on where the driver still
// needs it. Another pod's: it is put back when that pod is gone. wait > 0: not settled, look again.
func (a *Agent) settle(ctx context.Context, st node.Status) (wait time.Duration, err error) {
	n, err := a.getNode(ctx)
	if err != nil {
		return askAgain, err
	}
	r, there, err := a.recordOf(n)
	switch {
	case err != nil:
		return a.cfg.RetryAfter, err
	case !there:
		a.unsettled = false
		return 0, nil
	case !a.notMine(r) && (a.asks(st) || a.underWay(st)):
		a.say("going on with what was begun at %s: %s", r.Since.Format(time.RFC3339), r.changes())
		return a.cfg.RetryAfter, a.attempt(ctx)
	case a.notMine(r) && !a.asks(st): // the driver that asks is the node's one: nobody else's upgrade can be under way
		alive, err := a.alive(ctx, r.UID)
		if err != nil {
			return askAgain, err
		}
		if alive {
			if a.other != r.UID {
				a.other = r.UID
				a.say("pod %s works on this node: %s", r.Pod, r.changes())
			}
			return othersTurn, nil
		}
	}
	done, err := a.putBack(ctx, func(now record) bool { return now.UID != r.UID })
	if err != nil {
		return askAgain, err
	}
	a.unsettled = false
	if done != "" {
		a.tell(ctx, reasonRestored, "put back what pod %s had left on node %s: %s", r.Pod, a.cfg.Node, done)
	}
	return 0, nil
}

// alive says whether a pod is still on this node: then its own agent puts things back.
func (a *Agent) alive(ctx context.Context, uid string) (bool, error) {
	pods, err := a.pods(ctx)
	return slices.ContainsFunc(pods, func(p corev1.Pod) bool {
		return string(p.UID) == uid && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
	}), err
}

// attempt frees the node and stays until the driver serves. Whatever happens, what it changed is put back at its end.
func (a *Agent) attempt(ctx context.Context) (err error) {
	a.unsettled = true
	defer func() { err = a.finish(ctx, err) }()
	r, err := a.take(ctx)
	if err != nil {
		return err
	}
	a.tell(ctx, reasonStarted, "freeing node %s for its driver: %s", a.cfg.Node, r.changes())
	deadline := time.Now().Add(a.cfg.Timeout)
	var freed bool
	for {
		st := a.watch.look()
		if a.serves(st) {
			return nil
		}
		if a.over(st) {
			return fmt.Errorf("the driver did not come up: state %q, %s", st.State, st.Reason)
		}
		var l left
		if a.asks(st) {
			if l, err = a.free(ctx, r); errors.Is(err, errLost) {
				return err
			}
			if err == nil && l.none() && !freed {
				freed, a.freed, deadline = true, st.Instance, time.Now().Add(a.cfg.Timeout)
				a.say("node %s is free, the driver goes on", a.cfg.Node)
			}
		}
		if time.Now().After(deadline) {
			return a.late(st, l, freed, err)
		}
		if !pause(ctx, every) {
			return ctx.Err()
		}
	}
}

// free does one sweep, and lets the driver go on when nothing is left.
func (a *Agent) free(ctx context.Context, r record) (left, error) {
	n, err := a.getNode(ctx)
	if err == nil {
		err = a.mine(n)
	}
	if err != nil {
		return left{}, err
	}
	l, err := a.sweep(ctx, r.Labels, false)
	if err == nil && l.none() {
		err = a.release(ctx)
	}
	return l, err
}

// late is why an attempt is given up.
func (a *Agent) late(st node.Status, l left, freed bool, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("after %s: %w", a.cfg.Timeout, err)
	case !l.none() || !freed:
		return fmt.Errorf("node %s is not free after %s: %s", a.cfg.Node, a.cfg.Timeout, l)
	}
	text := fmt.Sprintf("node %s is free of GPU pods, but driver %s does not serve after %s: state %q", a.cfg.Node, st.Wanted, a.cfg.Timeout, st.State)
	for _, why := range []string{st.Reason, l.String()} {
		if why != "" {
			text += ", " + why
		}
	}
	return errors.New(text)
}

// finish puts back what an attempt changed and tells how it went. Where that fails it is tried again by later rounds.
func (a *Agent) finish(ctx context.Context, cause error) error {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastCalls)
	defer cancel()
	done, err := a.putBack(bounded, a.notMine)
	a.unsettled = err != nil
	switch {
	case err != nil:
		return errors.Join(cause, err)
	case ctx.Err() != nil:
		a.say("stopped: put back: %s", done)
		return nil
	case cause != nil && done != "":
		return fmt.Errorf("%w; put back (%s), tried again in %s", cause, done, a.cfg.RetryAfter)
	case cause == nil:
		a.tell(ctx, reasonDone, "driver %s serves node %s; put back: %s", a.watch.look().Wanted, a.cfg.Node, done)
	}
	return cause
}
