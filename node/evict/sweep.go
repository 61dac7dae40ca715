package evict

import (
	"context"
	"maps"
	"strings"
	"time"
)

// sweepResult lists the pods that still keep the driver in use after a sweep.
type sweepResult struct {
	ending  []string // evicted, or of an operand whose daemon is paused
	refused []string // with the reason
	plugins []string // of the DRA driver's kubelet plugin, which is paused last
	// claims are those of the pods above that have claims on NVIDIA's devices; claimOperands are
	// the operands among them, which end when they are paused.
	claims, claimOperands int

	late    []string      // UIDs of the pods that have not ended yet
	evicted []*Pod        // by this sweep
	after   time.Duration // the server asks not to evict again before
	busy    bool          // the server takes no more requests now
	// firstRefused is the first pod that the server does not evict; nil: none, or none was asked for.
	firstRefused *Pod
	firstReason  string // of the server
	returned     bool   // a pod comes back again and again
}

func (l sweepResult) isFree() bool { return len(l.ending)+len(l.refused)+len(l.plugins) == 0 }

// mayPauseOperands says that no other pod has a claim any more.
func (l sweepResult) mayPauseOperands() bool { return l.claims == l.claimOperands }

// mayPausePlugin says that the kubelet does not need the plugin any more, and nothing else is left
// to end.
func (l sweepResult) mayPausePlugin() bool { return len(l.ending)+len(l.refused) == 0 }

func (l sweepResult) String() string {
	var parts []string
	if len(l.refused) > 0 {
		parts = append(parts, strings.Join(l.refused, "; "))
	}
	if ending := append(l.ending[:len(l.ending):len(l.ending)], l.plugins...); len(ending) > 0 {
		parts = append(parts, "not ended yet: "+strings.Join(ending, ", "))
	}
	return strings.Join(parts, "; ")
}

// sweep evicts the pods that have to go and are not ending yet, and returns the pods that are left.
// With trial it changes nothing and lists only the evictions that would be refused. Pods of
// DaemonSets are evicted when no pod has claims any more: one of them may be the kubelet plugin,
// which their end needs.
func (a *Agent) sweep(
	ctx context.Context,
	pausedLabels map[string]string,
	trial bool,
) (sweepResult, error) {
	var l sweepResult
	pods, err := a.pods(ctx)
	if err != nil {
		return l, err
	}
	claims, err := a.claimUsers(ctx, pods)
	if err != nil {
		return l, err
	}
	users := maps.Clone(claims)
	for _, h := range a.driver().Holders {
		users[h.Pod] = h.Pod != ""
	}
	if !trial {
		a.history.see(pods)
	}
	found := map[kind][]*Pod{}
	for i := range pods {
		p := &pods[i]
		k := a.cfg.classify(p, users, pausedLabels)
		found[k] = append(found[k], p)
		if claims[p.Metadata.UID] && k != ignored {
			l.claims++
			if k == operand {
				l.claimOperands++
			}
		}
	}
	for _, k := range []kind{target, unmanaged, static, operand, daemon, plugin} {
		for _, p := range found[k] {
			a.end(ctx, p, k, claims[p.Metadata.UID], trial, &l)
			if ctx.Err() != nil {
				return l, ctx.Err()
			}
		}
	}
	a.history.count(l.evicted)
	return l, nil
}

// end ends one pod, or finds out that it cannot be ended, and adds it to the list.
func (a *Agent) end(ctx context.Context, p *Pod, k kind, claims, trial bool, l *sweepResult) {
	why := a.history.refusal(p, k, trial)
	l.returned = l.returned || why != ""
	if why == "" && !p.isEnding() {
		why = a.cfg.refusal(p, k, claims)
	}
	if why != "" {
		l.refused = append(l.refused, why)
		return
	}
	if k == operand || k == plugin || p.isEnding() || k == daemon && l.claims > 0 && !trial {
		if !trial {
			l.wait(p, k)
		}
		return
	}
	if l.busy {
		l.refused = append(l.refused, "pod "+p.String()+": the API server is busy")
		return
	}
	refused := a.evict(ctx, p, trial)
	l.after = max(l.after, refused.after)
	l.busy = refused.busy
	switch {
	case ctx.Err() != nil:
	case refused.reason != "":
		l.refused = append(l.refused, "pod "+p.String()+": "+refused.reason)
		if l.firstRefused == nil {
			l.firstRefused = p
			l.firstReason = refused.reason
		}
	case !trial:
		a.log.Info("evicted", "pod", p.String())
		a.reportData(ctx, p)
		l.evicted = append(l.evicted, p)
		l.wait(p, k)
	}
}

// wait adds a pod that ends, or will when its turn comes.
func (l *sweepResult) wait(p *Pod, k kind) {
	if k == plugin {
		l.plugins = append(l.plugins, p.String())
	} else {
		l.ending = append(l.ending, p.String())
	}
	if p.isEnding() {
		l.late = append(l.late, p.Metadata.UID)
	}
}

// reportData says which data an eviction has ended.
func (a *Agent) reportData(ctx context.Context, p *Pod) {
	volumes := p.emptyDirs()
	if volumes != "" {
		a.report(
			ctx,
			reasonData,
			"pod %s was evicted, and the data in its emptyDir volumes ended with it: %s",
			p,
			volumes,
		)
	}
}

// refusal says why this program does not evict a pod that uses the driver, and what to do; "" when
// it does.
func (c Config) refusal(p *Pod, k kind, claims bool) string {
	const selector = "give the DaemonSet the node selector " + deployPrefix + "client=true (the kubelet plugin of NVIDIA's DRA driver: " +
		pluginLabel + "=true, with --resource-claims) and the node that label, so that it can be paused"
	switch {
	case k == unmanaged:
		return "pod " + p.String() + " has no controller that would make it anew: end it, or allow that with --force (DRIVER_EVICT_FORCE)"
	case k == static:
		return "pod " + p.String() + " uses the driver and is a static pod, which no eviction ends: remove its manifest from the node, or stop what uses the driver"
	case k == daemon && claims:
		return "pod " + p.String() + " has a resource claim and belongs to a DaemonSet, which would start it again with its devices: " + selector
	case (k == target || k == daemon && c.DaemonSets) && !c.DeleteEmptyDir && p.emptyDirs() != "":
		return "pod " + p.String() + " has data in emptyDir volumes (" + p.emptyDirs() + "), which end with it: end it, or allow that with --delete-emptydir-data (DRIVER_EVICT_DELETE_EMPTYDIR_DATA)"
	case k == daemon && !c.DaemonSets:
		return "pod " + p.String() + " uses the driver and belongs to a DaemonSet: " + selector + ", or allow its eviction with --evict-daemonsets (DRIVER_EVICT_DAEMONSETS)"
	}
	return ""
}
