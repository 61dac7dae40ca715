package evict

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/driver-container/driver-container/node/kubernetes"
	"github.com/driver-container/driver-container/node/status"
)

// patch is a part of a JSON merge patch; nil removes a key.
type patch = kubernetes.Patch

func (a *Agent) getNode(ctx context.Context) (kubernetes.NodeObject, error) {
	n, err := a.client.GetNode(ctx, a.cfg.Node)
	if err != nil {
		err = fmt.Errorf("read node %s: %w", a.cfg.Node, granted(err))
	}
	return n, err
}

// change applies the whole patch of edit or nothing.
func (a *Agent) change(ctx context.Context, edit func(kubernetes.NodeObject) (patch, error)) error {
	if err := a.client.ChangeNode(ctx, a.cfg.Node, edit); err != nil {
		return fmt.Errorf("change node %s: %w", a.cfg.Node, granted(err))
	}
	return nil
}

// granted adds to an error what grants the permission, if one is missing.
func granted(err error) error {
	if errors.Is(err, kubernetes.ErrForbidden) {
		return fmt.Errorf(
			"%w (the chart does that with evictGPUPods and, for resource claims, evict.resourceClaims)",
			err,
		)
	}
	return err
}

// recordOf parses the node's annotation; false when there is none.
func (a *Agent) recordOf(n kubernetes.NodeObject) (record, bool, error) {
	text, ok := n.Metadata.Annotations[Annotation]
	if !ok {
		return record{}, false, nil
	}
	r, err := parseRecord(text)
	if err != nil {
		return record{}, false, fmt.Errorf(
			"the annotation %s cannot be read: %w; uncordon the node and correct its labels %s* by hand, then remove the annotation",
			Annotation,
			err,
			deployPrefix,
		)
	}
	return r, true, nil
}

// prepareNode cordons the node, pauses the operands unless pods with claims have to end before, and
// records these changes, all in one patch. It keeps an existing record of this pod, since that
// knows the state before the first change.
func (a *Agent) prepareNode(ctx context.Context, found sweepResult) (record, error) {
	var r record
	err := a.change(ctx, func(n kubernetes.NodeObject) (patch, error) {
		old, there, err := a.recordOf(n)
		switch {
		case err != nil:
			return nil, err
		case there && a.isForeign(old):
			return nil, fmt.Errorf("pod %s has begun an eviction on this node", old.Pod)
		case there:
			r = old
			return nil, nil
		}
		r = record{
			Pod:      a.cfg.Namespace + "/" + a.cfg.Pod,
			UID:      a.cfg.UID,
			Since:    time.Now().UTC().Truncate(time.Second),
			Cordoned: !n.Spec.Unschedulable,
			Labels:   map[string]string{},
		}
		labels := patch{}
		if found.mayPauseOperands() {
			for key, value := range operandsToPause(n.Metadata.Labels) {
				r.Labels[key] = value
				labels[key] = pausedValue(value)
			}
		}
		return patch{
			"metadata": patch{"annotations": patch{Annotation: r.String()}, "labels": labels},
			"spec":     patch{"unschedulable": true},
		}, nil
	})
	return r, err
}

// nextLabels adds to the record the labels whose turn it is, and returns their new values. Operands
// are paused, all at once, when no other pod has a claim; the kubelet plugin when nothing else is
// left. If a pod with a claim has come back to the node, the plugin gets its label back: the
// kubelet cannot end that pod without it.
func (a *Agent) nextLabels(r record, present map[string]string, l sweepResult) patch {
	labels := patch{}
	begun := r.hasOperands() // a label that a person changes afterwards stays
	for key, value := range a.toPause(present) {
		due := l.mayPauseOperands() && !begun
		if key == pluginLabel {
			_, done := r.Labels[key]
			due = l.mayPausePlugin() && !done
		}
		if due {
			r.Labels[key] = value
			labels[key] = pausedValue(value)
		}
	}
	if value, paused := r.Labels[pluginLabel]; paused && l.claims > 0 &&
		present[pluginLabel] == pausedValue(value) {
		delete(r.Labels, pluginLabel)
		labels[pluginLabel] = value
	}
	return labels
}

// pauseNext changes the labels whose turn it is, together with the record.
func (a *Agent) pauseNext(ctx context.Context, l sweepResult) error {
	done := ""
	err := a.change(ctx, func(n kubernetes.NodeObject) (patch, error) {
		r, err := a.ownRecord(n)
		if err != nil {
			return nil, err
		}
		labels := a.nextLabels(r, n.Metadata.Labels, l)
		if len(labels) == 0 {
			return nil, nil
		}
		done = r.changes()
		return patch{
			"metadata": patch{"annotations": patch{Annotation: r.String()}, "labels": labels},
		}, nil
	})
	if err != nil || done == "" {
		return err
	}
	a.log.Info("the next daemons are paused", "node", a.cfg.Node, "changes", done)
	return nil
}

// putBack undoes the changes in the record of the pod with this UID, except those that others have
// changed since, and removes the record. It returns what was undone; "" without such a record.
func (a *Agent) putBack(ctx context.Context, uid string) (done string, err error) {
	err = a.change(ctx, func(n kubernetes.NodeObject) (patch, error) {
		done = ""
		r, there, err := a.recordOf(n)
		if err != nil || !there || r.UID != uid {
			return nil, err
		}
		labels := patch{}
		for key, value := range r.Labels {
			if n.Metadata.Labels[key] == pausedValue(value) {
				labels[key] = value
			}
		}
		p := patch{"metadata": patch{"annotations": patch{Annotation: nil}, "labels": labels}}
		if r.Cordoned && n.Spec.Unschedulable {
			p["spec"] = patch{"unschedulable": nil}
		}
		done = r.changes()
		return p, nil
	})
	if err != nil {
		return "", fmt.Errorf("put back what was changed: %w", err)
	}
	return done, nil
}

// allowDriver removes the annotation with which the driver asks, so that the driver continues. It
// does nothing when the annotation is not there any more, and returns errLost when the record is
// gone.
func (a *Agent) allowDriver(ctx context.Context) error {
	return a.change(ctx, func(n kubernetes.NodeObject) (patch, error) {
		if _, err := a.ownRecord(n); err != nil {
			return nil, err
		}
		if n.Metadata.Annotations[status.SafeLoadAnnotation] != a.cfg.Pod {
			return nil, nil
		}
		return patch{"metadata": patch{"annotations": patch{status.SafeLoadAnnotation: nil}}}, nil
	})
}

// errLost says that another program or a person removed our record. The changes are theirs now.
var errLost = errors.New("its annotation " + Annotation + " was removed or replaced")

// ownRecord returns this pod's record of the node.
func (a *Agent) ownRecord(n kubernetes.NodeObject) (record, error) {
	r, there, err := a.recordOf(n)
	if err == nil && (!there || a.isForeign(r)) {
		err = fmt.Errorf("%w; the eviction is given up", errLost)
	}
	if r.Labels == nil {
		r.Labels = map[string]string{}
	}
	return r, err
}
