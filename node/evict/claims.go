package evict

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/node/kubernetes"
)

// draDrivers are the names under which NVIDIA's DRA driver allocates devices: GPUs and parts of
// them, and the channels of ComputeDomains.
var draDrivers = []string{"gpu.nvidia.com", "compute-domain.nvidia.com"}

// domainLabel is the node label of a ComputeDomain. The DRA driver starts the domain's daemon on
// nodes that have it, and removes it when the last pod of the domain has ended on the node.
const domainLabel = "resource.nvidia.com/computeDomain"

// claimVersions are the versions of resource.k8s.io that are read, best first. The GPU Operator's
// DRA driver needs v1 (Kubernetes 1.34). Earlier releases of that driver also run on 1.32 and 1.33,
// which serve the beta versions if an administrator enables them. What is read here is the same in
// all of them. v1alpha3 has no ResourceClaims since 1.32.
var claimVersions = []string{"v1", "v1beta2", "v1beta1"}

// claim is the part of a ResourceClaim that says which drivers allocated its devices.
type claim struct {
	Status struct {
		Allocation *struct {
			Devices struct{ Results []device }
		}
	}
}

type device struct{ Driver string }

func (d device) isNVIDIA() bool { return slices.Contains(draDrivers, d.Driver) }

// claimUsers knows the pods that use devices of NVIDIA's DRA driver.
type claimUsers struct {
	// known has what was found out about pods, by UID, and is certain: a pod's claims do not
	// change, and neither does an allocation as long as the pod exists. So a pod stays a user when
	// its claim is deleted under it.
	known    map[string]bool
	unserved bool // no version of the API is: there is no plugin to pause either
	warned   bool // that no version is served
}

// errNotServed says that the API server has no ResourceClaims in any version that is read.
var errNotServed = errors.New(
	"the API server serves no ResourceClaims in resource.k8s.io/" + strings.Join(
		claimVersions,
		", ",
	),
)

// claimUsers returns the UIDs of those of the node's pods that hold claims on NVIDIA's devices,
// without finished pods: the kubelet has released their devices. Without ResourceClaims in the
// cluster, or unless they are looked at, there are none.
func (a *Agent) claimUsers(ctx context.Context, pods []Pod) (map[string]bool, error) {
	users := map[string]bool{}
	if !a.cfg.ResourceClaims {
		return users, nil
	}
	a.claims.unserved = false
	read := map[string]*claim{} // pods can share a claim
	certain := map[string]bool{}
	for i := range pods {
		p := &pods[i]
		if p.isFinished() {
			continue
		}
		uses, known := a.claims.known[p.Metadata.UID]
		if !known {
			var err error
			uses, known, err = a.usesClaims(ctx, p, read)
			if errors.Is(err, errNotServed) {
				a.claims.unserved = true
				if !a.claims.warned {
					a.claims.warned = true
					a.log.Warn("resource claims are not looked at", "pod", p.String(), "error", err)
				}
				return map[string]bool{}, nil
			}
			if err != nil {
				return nil, err
			}
		}
		if known {
			certain[p.Metadata.UID] = uses
		}
		if uses {
			users[p.Metadata.UID] = true
		}
	}
	a.claims.known = certain // without pods that are gone
	return users, nil
}

// usesClaims reads the claims of a pod. The answer is certain unless a claim is not made, or not
// allocated, yet. A claim that does not exist gives the pod no device: pods that hold the device
// all the same are found by that.
func (a *Agent) usesClaims(
	ctx context.Context,
	p *Pod,
	read map[string]*claim,
) (uses, certain bool, err error) {
	names, complete := p.claimNames()
	for _, name := range names {
		key := p.Metadata.Namespace + "/" + name
		c, ok := read[key]
		if !ok {
			c, err = a.getClaim(ctx, p.Metadata.Namespace, name)
			if err != nil {
				return false, false, fmt.Errorf("look whether pod %s uses a GPU: %w", p, err)
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

// claimNames returns the names of a pod's claims: those that it names, those that were made from a
// template, and the one that the scheduler made for extended resources. It is not complete if a
// template's claim is not made yet.
func (p *Pod) claimNames() (names []string, complete bool) {
	complete = true
	for _, ref := range p.Spec.ResourceClaims {
		name := ref.ResourceClaimName
		if name == "" {
			made := false
			for _, s := range p.Status.ResourceClaimStatuses {
				if s.Name == ref.Name {
					made = true
					name = s.ResourceClaimName
				}
			}
			complete = complete && made
		}
		if name != "" { // otherwise it is not made, or the pod needs none
			names = append(names, name)
		}
	}
	if name := p.Status.ExtendedClaim.ResourceClaimName; name != "" {
		names = append(names, name)
	}
	return names, complete
}

// getClaim reads one claim in the first version that the server has; nil when the claim does not
// exist.
func (a *Agent) getClaim(ctx context.Context, namespace, name string) (*claim, error) {
	for _, version := range claimVersions {
		c := &claim{}
		path := kubernetes.Path(
			"apis",
			"resource.k8s.io",
			version,
			"namespaces",
			namespace,
			"resourceclaims",
			name,
		)
		err := a.client.Do(ctx, kubernetes.Request{Method: http.MethodGet, Path: path}, c)
		var answer *kubernetes.StatusError
		switch {
		case err == nil:
			return c, nil
		case !errors.As(err, &answer) || answer.Code != http.StatusNotFound:
			return nil, fmt.Errorf("read resource claim %s/%s: %w", namespace, name, granted(err))
		// The answer names an object that does not exist. For a group or a version that the server
		// does not know it names none.
		case answer.Details.Name != "":
			return nil, nil
		}
	}
	return nil, errNotServed
}
