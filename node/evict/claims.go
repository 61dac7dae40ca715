package evict

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// draDrivers are the names under which NVIDIA's DRA driver allocates devices: GPUs and parts of them, and the
// channels of ComputeDomains.
var draDrivers = []string{"gpu.nvidia.com", "compute-domain.nvidia.com"}

// domainLabel is the node label of a ComputeDomain. The DRA driver starts the domain's daemon on nodes that
// have it, and removes it when the last pod of the domain has ended on the node.
const domainLabel = "resource.nvidia.com/computeDomain"

// claimVersions are the versions of resource.k8s.io that are read, best first. The GPU Operator's DRA driver
// needs v1 (Kubernetes 1.34). Earlier releases of that driver also run on 1.32 and 1.33, which serve the beta
// versions if an administrator enables them. What is read here is the same in all of them. v1alpha3 has no
// ResourceClaims since 1.32.
var claimVersions = []string{"v1", "v1beta2", "v1beta1"}

// claimResource is the resource in rules of RBAC.
const claimResource = "resourceclaims"

// claim is the part of a ResourceClaim that says which drivers allocated its devices.
type claim struct {
	Status struct {
		Allocation *struct {
			Devices struct {
				Results []device `json:"results"`
			} `json:"devices"`
		} `json:"allocation"`
	} `json:"status"`
}

// device is an allocated device.
type device struct {
	Driver string `json:"driver"`
}

func (d device) isNVIDIA() bool { return slices.Contains(draDrivers, d.Driver) }

// claimUsers knows the pods that use devices of NVIDIA's DRA driver.
type claimUsers struct {
	version string // of the API, the last that answered
	// known has what was found out about pods, and is certain: a pod's claims do not change, and neither does
	// an allocation as long as the pod exists. So a pod stays a user when its claim is deleted under it.
	known    map[types.UID]bool
	unserved bool // no version of the API is: there is no plugin to pause either
	warned   bool // that no version is served
}

// errNotServed says that the API server has no ResourceClaims in any version that is read.
var errNotServed = errors.New("the API server serves no ResourceClaims in resource.k8s.io/" + strings.Join(claimVersions, ", "))

// claimUsers returns the UIDs of those of the node's pods that hold claims on NVIDIA's devices, without
// finished pods: the kubelet has released their devices. Without ResourceClaims in the cluster, or unless
// they are looked at, there are none.
func (a *Agent) claimUsers(ctx context.Context, pods []corev1.Pod) (map[types.UID]bool, error) {
	users := map[types.UID]bool{}
	if !a.cfg.ResourceClaims {
		return users, nil
	}
	a.claims.unserved = false
	read := map[string]*claim{} // pods can share a claim
	certain := map[types.UID]bool{}
	for i := range pods {
		p := &pods[i]
		if isFinished(p) {
			continue
		}
		uses, known := a.claims.known[p.UID]
		if !known {
			var err error
			uses, known, err = a.usesClaims(ctx, p, read)
			if errors.Is(err, errNotServed) {
				a.claims.unserved = true
				if !a.claims.warned {
					a.claims.warned = true
					a.log.Warn("resource claims are not looked at", "pod", podName(p), "error", err)
				}
				return map[types.UID]bool{}, nil
			}
			if err != nil {
				return nil, err
			}
		}
		if known {
			certain[p.UID] = uses
		}
		if uses {
			users[p.UID] = true
		}
	}
	a.claims.known = certain // without pods that are gone
	return users, nil
}

// usesClaims reads the claims of a pod. The answer is certain unless a claim is not made, or not allocated,
// yet. A claim that does not exist gives the pod no device: pods that hold the device all the same are found
// by that.
func (a *Agent) usesClaims(ctx context.Context, p *corev1.Pod, read map[string]*claim) (uses, certain bool, err error) {
	names, complete := claimNames(p)
	for _, name := range names {
		key := p.Namespace + "/" + name
		c, ok := read[key]
		if !ok {
			if c, err = a.getClaim(ctx, p.Namespace, name); err != nil {
				return false, false, fmt.Errorf("look whether pod %s uses a GPU: %w", podName(p), err)
			}
			read[key] = c
		}
		switch {
		case c == nil || c.Status.Allocation == nil:
			complete = false
		case slices.ContainsFunc(c.Status.Allocation.Devices.Results, device.isNVIDIA):
			return true, true, nil
		}
	}
	return false, complete, nil
}

// claimNames returns the names of a pod's claims: those that it names, those that were made from a template,
// and the one that the scheduler made for extended resources. It is not complete if a template's claim is not
// made yet.
func claimNames(p *corev1.Pod) (names []string, complete bool) {
	complete = true
	for _, ref := range p.Spec.ResourceClaims {
		if ref.ResourceClaimName != nil {
			names = append(names, *ref.ResourceClaimName)
			continue
		}
		made := slices.IndexFunc(p.Status.ResourceClaimStatuses, func(s corev1.PodResourceClaimStatus) bool { return s.Name == ref.Name })
		if made < 0 {
			complete = false
		} else if name := p.Status.ResourceClaimStatuses[made].ResourceClaimName; name != nil { // nil: the pod needs none
			names = append(names, *name)
		}
	}
	if extended := p.Status.ExtendedResourceClaimStatus; extended != nil && extended.ResourceClaimName != "" {
		names = append(names, extended.ResourceClaimName)
	}
	return names, complete
}

// getClaim reads one claim in the first version that the server has; nil when the claim does not exist.
func (a *Agent) getClaim(ctx context.Context, namespace, name string) (*claim, error) {
	versions := slices.Clone(claimVersions)
	if i := slices.Index(versions, a.claims.version); i > 0 {
		versions = slices.Insert(slices.Delete(versions, i, i+1), 0, a.claims.version)
	}
	for _, version := range versions {
		result := a.core.Get().AbsPath("/apis/resource.k8s.io", version).Namespace(namespace).Resource(claimResource).Name(name).Do(ctx)
		err := result.Error()
		switch {
		case isNoSuchPath(err):
			continue
		case apierrors.IsNotFound(err):
			a.claims.version = version
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("read resource claim %s/%s: %w%s", namespace, name, err, missingPermission(err, "get", claimResource))
		}
		a.claims.version = version
		c := &claim{}
		data, err := result.Raw()
		if err == nil {
			err = json.Unmarshal(data, c)
		}
		if err != nil {
			return nil, fmt.Errorf("read resource claim %s/%s: %w", namespace, name, err)
		}
		return c, nil
	}
	return nil, errNotServed
}

// isNoSuchPath tells an API that is not served from an object that does not exist, which the server names.
// For a group that it does not know it answers 404 with a line of text, for a version of a group that it
// knows with a Status that names no object.
func isNoSuchPath(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) || answer.Status().Code != http.StatusNotFound {
		return false
	}
	details := answer.Status().Details
	return details == nil || details.Name == "" || apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
