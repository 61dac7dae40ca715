package evict

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"k8s.io/client-go/rest"

	"github.com/driver-container/driver-container/node/status"
)

// Agent frees one node for its pod's driver, whenever that asks for it.
type Agent struct {
	cfg   Config
	core  *rest.RESTClient
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
func New(cfg Config, core *rest.RESTClient, say func(format string, args ...any), rest func()) *Agent {
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
func (a *Agent) act(ctx context.Context, st status.Snapshot) (time.Duration, error) {
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
