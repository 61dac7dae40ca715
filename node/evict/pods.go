package evict

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/driver-container/driver-container/node/kubernetes"
)

// Pod is what is read of a pod.
type Pod struct {
	Metadata struct {
		Namespace, Name, UID string
		Annotations          map[string]string
		OwnerReferences      []owner
		DeletionTimestamp    *time.Time // when its grace period is over
	}
	Spec struct {
		NodeSelector               map[string]string
		Containers, InitContainers []struct{ Resources resources }
		Resources                  resources
		ResourceClaims             []struct{ Name, ResourceClaimName string }
		Tolerations                []struct{ Key, Operator, Value, Effect string }
		Volumes                    []struct {
			Name     string
			EmptyDir *struct{}
		}
	}
	Status struct {
		Phase                 string
		ResourceClaimStatuses []struct{ Name, ResourceClaimName string }
		ExtendedClaim         struct{ ResourceClaimName string } `json:"extendedResourceClaimStatus"`
	}
}

// owner is what a pod belongs to.
type owner struct {
	Kind, Name, UID string
	Controller      bool
}

// resources have quantities by name.
type resources struct{ Requests, Limits map[string]string }

// kind says how a pod is treated in an upgrade.
type kind int

const (
	ignored   kind = iota // does not use a GPU, or may not be ended by this program
	target                // to be evicted
	unmanaged             // uses a GPU and has no controller that would recreate it
	// of a daemon that is paused, or of a ComputeDomain: its DaemonSet removes it
	operand
	plugin // of NVIDIA's DRA driver: paused last
	daemon // uses the driver and belongs to a DaemonSet that is not paused
	static // uses the driver and belongs to the node
)

// classify decides by the pod, by the UIDs of the pods that hold the driver or claims on its
// devices, and by the labels that are paused.
func (c Config) classify(p *Pod, users map[string]bool, pausedLabels map[string]string) kind {
	if p.Metadata.UID == c.UID || p.isFinished() {
		return ignored
	}
	owner := p.controller().Kind
	_, mirror := p.Metadata.Annotations["kubernetes.io/config.mirror"]
	ofDaemonSet := owner == "DaemonSet"
	ofNode := mirror || owner == "Node"
	uses := users[p.Metadata.UID]
	selected := func(key string) bool { _, paused := pausedLabels[key]; return paused && p.Spec.NodeSelector[key] != "" }
	switch {
	case ofDaemonSet && selected(pluginLabel):
		return plugin
	// The selector of a DaemonSet is that of its pods: it shows which label keeps a pod on the
	// node.
	case ofDaemonSet && (slices.ContainsFunc(slices.Collect(maps.Keys(pausedLabels)), selected) || c.ResourceClaims && uses && p.Spec.NodeSelector[domainLabel] != ""):
		return operand
	case !p.requestsGPU() && !uses, (ofDaemonSet || ofNode) && !uses:
		return ignored
	case ofNode:
		return static
	case ofDaemonSet:
		return daemon
	case owner == "" && !p.isEnding() && !c.Force:
		return unmanaged
	}
	return target
}

func (p *Pod) isFinished() bool { return p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed" }

func (p *Pod) isEnding() bool { return p.Metadata.DeletionTimestamp != nil }

func (p *Pod) String() string { return p.Metadata.Namespace + "/" + p.Metadata.Name }

// requestsGPU says whether a pod requests any of NVIDIA's resources: nvidia.com/gpu, shared and
// renamed ones, MIG slices.
func (p *Pod) requestsGPU() bool {
	all := []resources{p.Spec.Resources}
	for _, c := range slices.Concat(p.Spec.Containers, p.Spec.InitContainers) {
		all = append(all, c.Resources)
	}
	for _, r := range all {
		for _, list := range []map[string]string{r.Requests, r.Limits} {
			for name, quantity := range list {
				if strings.HasPrefix(name, "nvidia.com/") && quantity != "0" {
					return true
				}
			}
		}
	}
	return false
}

// pods lists the pods on this node, finished ones included.
func (a *Agent) pods(ctx context.Context) ([]Pod, error) {
	const most = 100 // pages of a hundred pods: no node has as many
	var out []Pod
	query := url.Values{"limit": {"100"}, "fieldSelector": {"spec.nodeName=" + a.cfg.Node}}
	for range most {
		var list struct {
			Metadata struct{ Continue string }
			Items    []Pod
		}
		err := a.client.Do(
			ctx,
			kubernetes.Request{
				Method: http.MethodGet,
				Path:   kubernetes.Path("api", "v1", "pods"),
				Query:  query,
				Most:   32 << 20,
			},
			&list,
		)
		if err != nil {
			return nil, fmt.Errorf("list the pods of node %s: %w", a.cfg.Node, granted(err))
		}
		out = append(out, list.Items...)
		if list.Metadata.Continue == "" {
			return out, nil
		}
		query.Set("continue", list.Metadata.Continue)
	}
	return nil, errors.New(
		"list the pods of node " + a.cfg.Node + ": there are more than this program reads",
	)
}

// evictionRefusal is why the cluster does not evict a pod.
type evictionRefusal struct {
	reason string        // for people; "": the pod will end or is gone
	after  time.Duration // the server asks not to send the request again before
	busy   bool          // the server takes no requests now, whichever pod they are about
}

// evict asks the cluster to end a pod. The reason names the disruption budget if one is the cause.
// With trial it only asks whether the eviction would be allowed.
func (a *Agent) evict(ctx context.Context, p *Pod, trial bool) evictionRefusal {
	err := a.client.Do(ctx, a.eviction(p, trial), nil)
	if err == nil {
		return evictionRefusal{}
	}
	answer, ok := errors.AsType[*kubernetes.StatusError](err)
	if !ok {
		return evictionRefusal{reason: err.Error()}
	}
	budget, byBudget := cause(answer, "DisruptionBudget")
	_, namespaceEnds := cause(answer, "NamespaceTerminating")
	refused := evictionRefusal{reason: granted(err).Error(), after: answer.RetryAfter}
	switch code := answer.Code; {
	case code == http.StatusNotFound,
		code == http.StatusConflict,
		namespaceEnds: // 409: another pod has its name
		return evictionRefusal{}
	case trial && code == http.StatusBadRequest: // a webhook does not support dry runs: the answer is unknown
		return evictionRefusal{}
	case code == http.StatusTooManyRequests && byBudget:
		refused.reason = strings.TrimSuffix(
			"a PodDisruptionBudget does not allow it: "+strings.TrimSuffix(budget, "."),
			": ",
		)
	case code == http.StatusTooManyRequests:
		refused.busy = true
	case code == http.StatusInternalServerError && strings.Contains(answer.Message, "PodDisruptionBudget"):
		refused.reason = err.Error() + "; leave one budget for this pod"
	}
	return refused
}

// cause returns the message of a cause in an answer.
func cause(answer *kubernetes.StatusError, reason string) (message string, found bool) {
	for _, c := range answer.Details.Causes {
		if c.Reason == reason {
			return c.Message, true
		}
	}
	return "", false
}

// eviction is the request that evicts a pod.
func (a *Agent) eviction(p *Pod, trial bool) kubernetes.Request {
	options := patch{"preconditions": patch{"uid": p.Metadata.UID}}
	if a.cfg.GracePeriod >= 0 {
		options["gracePeriodSeconds"] = a.cfg.GracePeriod
	}
	body := patch{
		"apiVersion": "policy/v1", "kind": "Eviction", "deleteOptions": options,
		"metadata": patch{"namespace": p.Metadata.Namespace, "name": p.Metadata.Name},
	}
	path := kubernetes.Path(
		"api",
		"v1",
		"namespaces",
		p.Metadata.Namespace,
		"pods",
		p.Metadata.Name,
		"eviction",
	)
	r := kubernetes.Request{Method: http.MethodPost, Path: path, Kind: kubernetes.JSON, Body: body}
	if trial { // the options are for the pod; the parameter is for the request and its webhooks
		options["dryRun"] = []string{"All"}
		r.Query = url.Values{"dryRun": {"All"}}
	}
	return r
}
