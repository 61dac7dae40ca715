package evict

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/driver-container/driver-container/node/daemons"
	"github.com/driver-container/driver-container/node/kubernetes"
	"github.com/driver-container/driver-container/node/status"
)

// Agent frees one node of GPU users whenever the driver of its pod asks for that.
type Agent struct {
	cfg           Config
	client        *kubernetes.Client
	log           *slog.Logger
	releaseMemory func()
	claims        claimUsers
	history       history
	blocked       blockedTrial
	statusErr     string // why the driver's status could not be read, logged once

	// There may be a record on the node: it was not read yet, or its changes could not be undone.
	mayHaveRecord bool
	grantedTo     string    // instance of the driver that was allowed to continue
	otherPod      string    // UID of another pod that owns the record and is still running
	nextRequest   time.Time // time of the next request to the cluster
	failures      int       // of steps in a row

	messages     map[string]message // the last one by reason
	events       *kubernetes.Recorder
	eventsFailed bool // which was logged
}

// New returns an agent. It calls releaseMemory after work for an upgrade, when the memory for that
// can be released.
func New(cfg Config, client *kubernetes.Client, log *slog.Logger, releaseMemory func()) *Agent {
	return &Agent{
		cfg:           cfg,
		client:        client,
		log:           log,
		releaseMemory: releaseMemory,
		mayHaveRecord: true,
		messages:      map[string]message{},
		events:        &kubernetes.Recorder{Client: client, Host: cfg.Node, Now: time.Now},
	}
}

const (
	statusInterval = 2 * time.Second // between reads of the status file, which are cheap
	sweepInterval  = 2 * time.Second // between requests to the cluster while pods end
	// Until the next request to the cluster: the annotation may be there by then. After requests that
	// fail it doubles up to mostRetry.
	clusterRetry    = 10 * time.Second
	mostRetry       = 30 * time.Second
	foreignRetry    = 30 * time.Second // until another pod's record is read again
	shutdownTimeout = 20 * time.Second // for undoing the changes when this process has to end
)

// Run works until ctx ends, then undoes the changes on the node. An error says that this failed and
// the next instance has to do it. Run does not end for any other reason: without the cluster it
// tries again.
func (a *Agent) Run(ctx context.Context) error {
	a.log.Info(
		"waiting for the driver to ask for a free node",
		"pod",
		a.cfg.Namespace+"/"+a.cfg.Pod,
		"node",
		a.cfg.Node,
	)
	for a.round(ctx); daemons.Sleep(ctx, statusInterval); {
		a.round(ctx)
	}
	if !a.mayHaveRecord {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	done, err := a.putBack(ctx, a.cfg.UID)
	if err != nil {
		return fmt.Errorf(
			"at the end: %w; the next instance of this pod does it, or see the annotation %s of node %s",
			err,
			Annotation,
			a.cfg.Node,
		)
	}
	if done != "" {
		a.log.Info("put back", "changes", done)
	}
	return nil
}

func (a *Agent) isForeign(r record) bool { return r.UID != a.cfg.UID }

// driver returns the present status of the driver; without a State when there is none.
func (a *Agent) driver() status.Snapshot {
	st, err := status.Read(a.cfg.Run)
	text := ""
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		text = err.Error()
	}
	if text != a.statusErr && text != "" {
		a.log.Warn("status file not read", "error", err)
	}
	a.statusErr = text
	return st
}

// round is one step. It asks the cluster only when the driver waits for that or when changes may
// have to be undone.
func (a *Agent) round(ctx context.Context) {
	st := a.driver()
	if !a.wantsFreeNode(st) && !a.mayHaveRecord {
		a.nextRequest = a.history.pauseUntil
		a.blocked = blockedTrial{}
		return
	}
	if time.Now().Before(a.nextRequest) || ctx.Err() != nil {
		return
	}
	wait, err := a.act(ctx, st)
	switch {
	case err == nil:
		a.failures = 0
	case ctx.Err() != nil:
		return
	default:
		a.failures++
		a.report(ctx, reasonFailed, "%v", err)
	}
	if err != nil && wait == 0 {
		wait = grown(clusterRetry, a.failures, mostRetry)
	}
	wait = max(wait, min(kubernetes.RetryAfter(err), a.cfg.Timeout))
	a.nextRequest = time.Now().Add(wait + rand.N(wait/4+1)) //nolint:gosec // jitter: nodes of a cluster that failed together
	a.releaseMemory()
}

// act does what the state requires and returns the time until the next step; 0 with an error: as
// after other requests that failed.
func (a *Agent) act(ctx context.Context, st status.Snapshot) (time.Duration, error) {
	if a.stillBlocked(ctx) {
		return a.waitBlocked(ctx, st), nil
	}
	n, err := a.getNode(ctx)
	if err != nil {
		return 0, err
	}
	r, there, err := a.recordOf(n)
	if err != nil {
		return a.cfg.RetryAfter, err
	}
	a.mayHaveRecord = there
	if there {
		return a.handleRecord(ctx, st, r)
	}
	if !a.wantsFreeNode(st) {
		return 0, nil
	}
	asker := n.Metadata.Annotations[status.SafeLoadAnnotation]
	wasAllowed := asker == "" && st.Instance != "" && st.Instance == a.grantedTo
	if asker != a.cfg.Pod && !wasAllowed { // it has not asked yet
		return clusterRetry, nil
	}
	l, err := a.sweep(ctx, a.toPause(n.Metadata.Labels), true)
	if err != nil {
		return 0, err
	}
	if len(l.refused) > 0 {
		a.blocked.pods = l
		return a.waitBlocked(ctx, st), nil
	}
	a.blocked = blockedTrial{}
	err = a.attempt(ctx, l)
	return a.history.pause, err
}
