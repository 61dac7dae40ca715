package evict

import (
	"context"
	"errors"
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
