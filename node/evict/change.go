package evict

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/driver-container/driver-container/node/status"
)

// object is a part of a JSON merge patch; nil removes a key.
type object map[string]any

// getNode reads the node.
func (a *Agent) getNode(ctx context.Context) (*corev1.Node, error) {
	n := &corev1.Node{}
	if err := a.core.Get().Resource("nodes").Name(a.cfg.Node).Do(ctx).Into(n); err != nil {
		return nil, fmt.Errorf("read node %s: %w%s", a.cfg.Node, err, missingPermission(err, "get", "nodes"))
	}
	return n, nil
}

// change reads the node, calls edit for a patch, and applies the whole patch or nothing. When the node was
// changed in between, it calls edit again. A nil patch means that there is nothing to do.
func (a *Agent) change(ctx context.Context, edit func(*corev1.Node) (object, error)) error {
	const tries = 10
	var err error
	for range tries {
		var n *corev1.Node
		if n, err = a.getNode(ctx); err != nil {
			return err
		}
		patch, eerr := edit(n)
		if eerr != nil || patch == nil {
			return eerr
		}
		metadata, ok := patch["metadata"].(object)
		if !ok {
			metadata = object{}
			patch["metadata"] = metadata
		}
		metadata["resourceVersion"] = n.ResourceVersion // the API server refuses the patch when the node has changed since edit read it
		data, merr := json.Marshal(patch)
		if merr != nil {
			return fmt.Errorf("patch node %s: %w", a.cfg.Node, merr)
		}
		err = a.core.Patch(types.MergePatchType).Resource("nodes").Name(a.cfg.Node).Body(data).Do(ctx).Error()
		if !apierrors.IsConflict(err) {
			break
		}
		if !pause(ctx, 50*time.Millisecond+rand.N(200*time.Millisecond)) { //nolint:gosec // jitter
			return fmt.Errorf("patch node %s: %w", a.cfg.Node, ctx.Err())
		}
	}
	if err != nil {
		return fmt.Errorf("patch node %s: %w%s", a.cfg.Node, err, missingPermission(err, "patch", "nodes"))
	}
	return nil
}

// errForeign says that the annotation belongs to another instance.
var errForeign = errors.New("another pod's eviction")

// recordOf parses the node's annotation; false when there is none.
func (a *Agent) recordOf(n *corev1.Node) (record, bool, error) {
	text, ok := n.Annotations[Annotation]
	if !ok {
		return record{}, false, nil
	}
	r, err := parseRecord(text)
	if err != nil {
		return record{}, false, fmt.Errorf("node %s: the annotation %s cannot be read: %w; uncordon the node and correct its labels %s* by hand, then remove the annotation", a.cfg.Node, Annotation, err, deployPrefix)
	}
	return r, true, nil
}

// prepareNode cordons the node, pauses the operands unless pods with claims have to end before, and records
// these changes, all in one patch. It keeps an existing record of this pod, since that knows the state before
// the first change.
func (a *Agent) prepareNode(ctx context.Context, found sweepResult) (record, error) {
	var r record
	err := a.change(ctx, func(n *corev1.Node) (object, error) {
		old, there, err := a.recordOf(n)
		switch {
		case err != nil:
			return nil, err
		case there && old.UID != a.cfg.UID:
			return nil, fmt.Errorf("node %s: %w stands: that of %s", a.cfg.Node, errForeign, old.Pod)
		case there:
			r = old
			return nil, nil
		}
		r = record{Pod: a.cfg.Namespace + "/" + a.cfg.Pod, UID: a.cfg.UID, Since: time.Now().UTC().Truncate(time.Second),
			Cordoned: !n.Spec.Unschedulable, Labels: map[string]string{}}
		labels := object{}
		if found.mayPauseOperands() {
			for key, value := range operandsToPause(n.Labels) {
				r.Labels[key], labels[key] = value, pausedValue(value)
			}
		}
		return object{
			"metadata": object{"annotations": object{Annotation: r.String()}, "labels": labels},
			"spec":     object{"unschedulable": true},
		}, nil
	})
	return r, err
}

// putBack undoes the changes in a record, except those that others have changed since, and removes the
// record. It returns what was undone; "" when there was no record, or when keep returns true for it.
func (a *Agent) putBack(ctx context.Context, keep func(record) bool) (string, error) {
	done := ""
	err := a.change(ctx, func(n *corev1.Node) (object, error) {
		done = ""
		r, there, err := a.recordOf(n)
		if err != nil || !there || keep != nil && keep(r) {
			return nil, err
		}
		labels := object{}
		for key, value := range r.Labels {
			if n.Labels[key] == pausedValue(value) {
				labels[key] = value
			}
		}
		patch := object{"metadata": object{"annotations": object{Annotation: nil}, "labels": labels}}
		if r.Cordoned && n.Spec.Unschedulable {
			patch["spec"] = object{"unschedulable": nil}
		}
		done = r.changes()
		return patch, nil
	})
	if err != nil {
		return "", fmt.Errorf("put back what was changed: %w", err)
	}
	return done, nil
}

// allowDriver removes the annotation with which the driver asks, so that the driver continues. It does
// nothing when the annotation is not there any more, and returns errLost when the record is gone.
func (a *Agent) allowDriver(ctx context.Context) error {
	return a.change(ctx, func(n *corev1.Node) (object, error) {
		if _, err := a.ownRecord(n); err != nil {
			return nil, err
		}
		if n.Annotations[status.SafeLoadAnnotation] != a.cfg.Pod {
			return nil, nil
		}
		return object{"metadata": object{"annotations": object{status.SafeLoadAnnotation: nil}}}, nil
	})
}

// errLost says that somebody removed our record. That person has undone the changes or decided to keep them.
var errLost = errors.New("its annotation " + Annotation + " was removed or replaced")

// ownRecord returns this pod's record of the node.
func (a *Agent) ownRecord(n *corev1.Node) (record, error) {
	r, there, err := a.recordOf(n)
	if err == nil && (!there || r.UID != a.cfg.UID) {
		err = fmt.Errorf("node %s: %w; the eviction is given up", a.cfg.Node, errLost)
	}
	if r.Labels == nil {
		r.Labels = map[string]string{}
	}
	return r, err
}

// missingPermission names the permission that is missing, when err says that one is.
func missingPermission(err error, verb, resource string) string {
	if !apierrors.IsForbidden(err) {
		return ""
	}
	value := "evictGPUPods"
	if resource == claimResource {
		value = "evict.resourceClaims"
	}
	return fmt.Sprintf("; grant the service account %q on %q (the chart does with %s)", verb, resource, value)
}
