package helm

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	authorization "k8s.io/api/authorization/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/driver-container/driver-container/ci/cluster/control"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// Rights as the documentation names them: "verb resource @namespace", where @* is every namespace or none.
var (
	ofEvents    = []string{"create events @default", "create events @own", "patch events @default", "patch events @own"}
	ofCondition = []string{"patch nodes/status @*"}
	ofSafeLoad  = []string{"get nodes @*", "patch nodes @*"}
	ofEviction  = []string{"list pods @*", "create pods/eviction @*"}
	ofClaims    = []string{"get resourceclaims.resource.k8s.io @*"}
)

// grants are sets of options, and all rights that each gives.
var grants = map[string]struct {
	values []string
	rights []string
}{
	"none":       {nil, nil},
	"events":     {[]string{"events=true"}, ofEvents},
	"condition":  {[]string{"nodeCondition=true"}, ofCondition},
	"safe-load":  {[]string{"safeLoad=true"}, ofSafeLoad},
	"taints":     {[]string{"startupTaints={example.com/starting}"}, ofSafeLoad},
	"eviction":   {[]string{"evictGPUPods=true"}, slices.Concat(ofEvents, ofSafeLoad, ofEviction)},
	"claims":     {[]string{"evictGPUPods=true", "evict.resourceClaims=true"}, slices.Concat(ofEvents, ofSafeLoad, ofEviction, ofClaims)},
	"no-claims":  {[]string{"safeLoad=true", "evict.resourceClaims=true"}, ofSafeLoad},
	"everything": {[]string{"evictGPUPods=true", "safeLoad=true", "events=true", "nodeCondition=true", "startupTaints={example.com/starting}"}, slices.Concat(ofEvents, ofCondition, ofSafeLoad, ofEviction)},
	"no-roles":   {[]string{"evictGPUPods=true", "rbac.create=false"}, nil},
}

// TestRights compares what the service account of each set of options may do with the declared rights: it asks
// the API server for all rights of the account, and takes away those that every account has.
func TestRights(t *testing.T) {
	p := control.Start(t, control.Config{})
	everybody := rights(t, p.ServiceAccount("nowhere", "nobody"), "nowhere")
	for name, tc := range grants {
		t.Run(name, func(t *testing.T) {
			p := p.With(t)
			namespace(t, p, name)
			p.Helm(append([]string{"install", "gpu", chart, "--namespace", name}, minimal(tc.values...)...)...)
			got := rights(t, p.ServiceAccount(name, "gpu-nvidia-driver"), name)
			got = slices.DeleteFunc(got, func(right string) bool { return slices.Contains(everybody, right) })
			assert.Same(t, slices.Sorted(slices.Values(tc.rights)), got, cmpopts.EquateEmpty()) // without those of every service account
		})
	}
}

// rights returns what a user may do: in its own namespace, in default, and in one with which it has nothing to
// do, whose rights are those in every namespace.
func rights(t *testing.T, p *control.Plane, own string) []string {
	t.Helper()
	clients, _ := p.Go()
	var all []string
	for _, namespace := range []string{"kube-system", "default", own} {
		review := &authorization.SelfSubjectRulesReview{Spec: authorization.SelfSubjectRulesReviewSpec{Namespace: namespace}}
		answer := require.Value(clients.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(), review, meta.CreateOptions{}))(t)
		for _, rule := range answer.Status.ResourceRules {
			for _, right := range described(rule) {
				switch {
				case slices.Contains(all, right+" @*"):
				case namespace == "kube-system":
					all = append(all, right+" @*")
				default:
					all = append(all, right+" @"+strings.ReplaceAll(namespace, own, "own"))
				}
			}
		}
		for _, rule := range answer.Status.NonResourceRules {
			all = append(all, fmt.Sprint(rule.Verbs, rule.NonResourceURLs))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// described returns "verb resource.group" for each of a rule.
func described(rule authorization.ResourceRule) []string {
	var all []string
	for _, verb := range rule.Verbs {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				all = append(all, strings.Join(append([]string{verb, strings.TrimSuffix(resource+"."+group, ".")}, rule.ResourceNames...), " "))
			}
		}
	}
	return all
}
