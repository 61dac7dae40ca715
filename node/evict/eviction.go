package evict

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// refusedError says that an eviction was refused. Reason is for people: it names the disruption budget if one
// is the cause.
type refusedError struct {
	Pod    string // NAMESPACE/NAME
	Reason string
	err    error
}

func (e *refusedError) Error() string { return "evict pod " + e.Pod + ": " + e.Reason }
func (e *refusedError) Unwrap() error { return e.err }

// evict asks the cluster to end a pod. It returns nil when the pod will end or is gone, else a
// *refusedError. With trial it only asks whether the eviction would be allowed. The client's own retries
// are off: they would wait for a budget without a message.
func (a *Agent) evict(ctx context.Context, p *corev1.Pod, trial bool) error {
	opts := &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(p.UID))}
	if a.cfg.GracePeriod >= 0 {
		opts.GracePeriodSeconds = &a.cfg.GracePeriod
	}
	req := a.core.Post().Namespace(p.Namespace).Resource("pods").Name(p.Name).SubResource("eviction").MaxRetries(0)
	if trial {
		opts.DryRun = []string{metav1.DryRunAll}
		req = req.Param("dryRun", metav1.DryRunAll) // the options are for the pod; this parameter is for the request and its webhooks
	}
	err := req.Body(&policyv1.Eviction{
		TypeMeta:      metav1.TypeMeta{APIVersion: policyv1.SchemeGroupVersion.String(), Kind: "Eviction"},
		ObjectMeta:    metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
		DeleteOptions: opts,
	}).Do(ctx).Error()
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err): // the UID differs: this pod is gone, and another pod has its name
		return nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil // everything in the namespace is being deleted
	case trial && apierrors.IsBadRequest(err):
		return nil // a webhook does not support dry runs: the answer is unknown
	}
	e := &refusedError{Pod: podName(p), err: err, Reason: err.Error() + missingPermission(err, "create", "pods/eviction")}
	if apierrors.IsTooManyRequests(err) && apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) {
		e.Reason = "a PodDisruptionBudget does not allow it" + causes(err)
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Code == http.StatusInternalServerError && strings.Contains(err.Error(), "PodDisruptionBudget") {
		e.Reason = err.Error() + "; leave one budget for this pod"
	}
	return e
}

// causes returns the server's text, which names the budget.
func causes(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return ""
	}
	var out strings.Builder
	for _, c := range status.Status().Details.Causes {
		if c.Type == policyv1.DisruptionBudgetCause && c.Message != "" {
			out.WriteString(": " + strings.TrimSuffix(c.Message, "."))
		}
	}
	return out.String()
}

// sweepResult lists the pods that still keep the driver in use after a sweep.
type sweepResult struct {
	ending      []string // evicted, or of an operand whose daemon is paused
	refused     []string // with the reason
	unevictable []string // this program may not end them
}

func (l sweepResult) isFree() bool { return len(l.ending)+len(l.refused) == 0 }

func (l sweepResult) String() string {
	var parts []string
	if len(l.refused) > 0 {
		parts = append(parts, strings.Join(l.refused, "; "))
	}
	if len(l.ending) > 0 {
		parts = append(parts, "not ended yet: "+strings.Join(l.ending, ", "))
	}
	if len(l.unevictable) > 0 {
		parts = append(parts, fmt.Sprintf("in use by %s, which no eviction ends (a DaemonSet: give it the node selector %sclient=true and the node that label, so that it can be paused)",
			strings.Join(l.unevictable, ", "), deployPrefix))
	}
	return strings.Join(parts, "; ")
}

// sweep evicts the pods that have to go and are not ending yet, and returns the pods that are left. With
// trial it changes nothing and returns only the evictions that would be refused.
func (a *Agent) sweep(ctx context.Context, pausedLabels map[string]string, trial bool) (sweepResult, error) {
	var l sweepResult
	pods, err := a.pods(ctx)
	if err != nil {
		return l, err
	}
	holders := holdersOf(a.watch.read().Holders)
	for i := range pods {
		p := &pods[i]
		switch k := a.cfg.classify(p, holders, pausedLabels); {
		case k == ignored:
		case k == unevictable:
			l.unevictable = append(l.unevictable, podName(p))
		case k == unmanaged:
			l.refused = append(l.refused, "pod "+podName(p)+" has no controller that would make it anew: end it, or allow that with --force (DRIVER_EVICT_FORCE)")
		case k == operand || p.DeletionTimestamp != nil:
			if !trial {
				l.ending = append(l.ending, podName(p))
			}
		default:
			err := a.evict(ctx, p, trial)
			var refused *refusedError
			switch {
			case ctx.Err() != nil:
				return l, ctx.Err()
			case errors.As(err, &refused):
				l.refused = append(l.refused, "pod "+refused.Pod+": "+refused.Reason)
			case !trial:
				a.log.Info("evicted", "pod", podName(p))
				l.ending = append(l.ending, podName(p))
			}
		}
	}
	return l, nil
}
