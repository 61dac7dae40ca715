package evict

import (
	"context"

	corev1 "k8s.io/api/core/v1"
)

// nextLabels adds to the record the labels whose turn it is, and returns their new values. Operands are
// paused, all at once, when no other pod has a claim; the kubelet plugin when nothing else is left. If a pod
// with a claim has come back to the node, the plugin gets its label back: the kubelet cannot end that pod
// without it.
func (a *Agent) nextLabels(r record, present map[string]string, l sweepResult) object {
	labels := object{}
	begun := r.hasOperands() // a label that a person changes afterwards stays
	for key, value := range a.toPause(present) {
		due := l.mayPauseOperands() && !begun
		if key == pluginLabel {
			_, done := r.Labels[key]
			due = l.mayPausePlugin() && !done
		}
		if due {
			r.Labels[key], labels[key] = value, pausedValue(value)
		}
	}
	if value, paused := r.Labels[pluginLabel]; paused && l.claims > 0 && present[pluginLabel] == pausedValue(value) {
		delete(r.Labels, pluginLabel)
		labels[pluginLabel] = value
	}
	return labels
}

// pauseNext changes the labels whose turn it is, together with the record.
func (a *Agent) pauseNext(ctx context.Context, l sweepResult) error {
	done := ""
	err := a.change(ctx, func(n *corev1.Node) (object, error) {
		r, err := a.ownRecord(n)
		if err != nil {
			return nil, err
		}
		labels := a.nextLabels(r, n.Labels, l)
		if len(labels) == 0 {
			return nil, nil
		}
		done = r.changes()
		return object{"metadata": object{"annotations": object{Annotation: r.String()}, "labels": labels}}, nil
	})
	if err == nil && done != "" {
		a.log.Info("the next daemons are paused", "node", a.cfg.Node, "changes", done)
	}
	return err
}
