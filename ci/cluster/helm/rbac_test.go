package helm

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	authorization "k8s.io/api/authorization/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/driver-container/driver-container/ci/cluster/control"
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

// TestRights compares what the service account of each set of options may do with the declared rights, twice:
// it asks the API server's authorizers about every resource and every verb, and it tries requests.
func TestRights(t *testing.T) {
	p := control.Start(t, control.Config{})
	for _, object := range []string{
		`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}`,
		`{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "kube-system"}}`,
		`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "kube-system"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}}`,
		`{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c", "namespace": "kube-system"}, "spec": {}}`,
	} {
		apply(t, p, object)
	}
	admin := clientset(t, p)
	asked := questions(t, admin)
	everybody := allowed(t, admin, asked, "nowhere", "nobody")
	for name, tc := range grants {
		t.Run(name, func(t *testing.T) {
			p := p.With(t)
			namespace(t, p, name)
			p.Helm(append([]string{"install", "gpu", chart, "--namespace", name}, minimal(tc.values...)...)...)
			want := slices.Sorted(slices.Values(tc.rights))
			got := slices.DeleteFunc(allowed(t, admin, asked, name, "gpu-nvidia-driver"), func(right string) bool { return slices.Contains(everybody, right) })
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("rights that every service account has left out (-declared +got):\n%s", diff)
			}
			account := p.ServiceAccount(name, "gpu-nvidia-driver")
			for _, r := range requests(name) {
				if may := slices.Contains(want, r.right); try(t, account, r) != may {
					t.Errorf("%s %s: allowed is %v; want %v", r.method, r.path, !may, may)
				}
			}
		})
	}
}

// question is a resource in an API group; subresources are named resource/subresource.
type question struct {
	group, resource string
	namespaced      bool
}

// questions returns all resources of the API server, and the wildcard that a role for everything would have.
func questions(t *testing.T, client *kubernetes.Clientset) []question {
	t.Helper()
	_, lists, err := client.Discovery().ServerGroupsAndResources()
	require.NoError(t, err)
	// Users and groups can be impersonated, and are no objects.
	all := []question{{"*", "*", true}, {"", "users", false}, {"", "groups", false}}
	for _, list := range lists {
		group, _, found := strings.Cut(list.GroupVersion, "/")
		if !found {
			group = ""
		}
		for _, r := range list.APIResources {
			if q := (question{group, r.Name, r.Namespaced}); !slices.Contains(all, q) {
				all = append(all, q)
			}
		}
	}
	if len(all) < 80 {
		t.Fatalf("the API server has %d resources only?", len(all))
	}
	return all
}

// special are verbs that only some resources have.
var special = map[string][]string{
	"users": {"impersonate"}, "groups": {"impersonate"}, "serviceaccounts": {"impersonate"},
	"roles": {"bind", "escalate"}, "clusterroles": {"bind", "escalate"},
	"certificatesigningrequests": {"approve", "sign"},
}

// allowed returns the rights of a service account. It asks about every right that could exist.
func allowed(t *testing.T, client *kubernetes.Clientset, questions []question, own, account string) []string {
	t.Helper()
	var all []string
	for _, q := range questions {
		for _, verb := range append([]string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "*"}, special[q.resource]...) {
			namespaces := []string{""}
			if q.namespaced { // if it is allowed everywhere, single namespaces need no question
				namespaces = append(namespaces, own, "default", "kube-system")
			}
			all = append(all, strings.Join([]string{verb, q.group, q.resource, strings.Join(namespaces, ",")}, " "))
		}
	}
	var mu sync.Mutex
	var rights []string
	each(t, all, func(ctx context.Context, line string) error {
		f := strings.Split(line, " ")
		for namespace := range strings.SplitSeq(f[3], ",") {
			yes, err := review(ctx, client, own, account, f[0], f[1], f[2], namespace)
			if err != nil {
				return err
			}
			if yes {
				mu.Lock()
				rights = append(rights, describe(f[0], f[1], f[2], strings.ReplaceAll(namespace, own, "own")))
				mu.Unlock()
			}
			if yes && namespace == "" {
				break
			}
		}
		return nil
	})
	slices.Sort(rights)
	return rights
}

func describe(verb, group, resource, namespace string) string {
	if group != "" {
		resource += "." + group
	}
	if namespace == "" {
		namespace = "*"
	}
	return fmt.Sprintf("%s %s @%s", verb, resource, namespace)
}

// review asks the API server whether a service account of the namespace own may do something.
func review(ctx context.Context, client *kubernetes.Clientset, own, account, verb, group, resource, namespace string) (bool, error) {
	resource, subresource, _ := strings.Cut(resource, "/")
	answer, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorization.SubjectAccessReview{Spec: authorization.SubjectAccessReviewSpec{
		User:               "system:serviceaccount:" + own + ":" + account,
		Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:" + own, "system:authenticated"},
		ResourceAttributes: &authorization.ResourceAttributes{Verb: verb, Group: group, Resource: resource, Subresource: subresource, Namespace: namespace},
	}}, meta.CreateOptions{})
	if err != nil {
		return false, err
	}
	return answer.Status.Allowed, nil
}

// request is one that the test sends to the API server; requests that write are dry runs, so that their order
// does not matter.
type request struct {
	method, path, body string
	right              string // that it needs; "" if no option allows it
}

func requests(own string) []request {
	event := func(namespace string) string {
		return `{"metadata": {"name": "e", "namespace": "` + namespace + `"}, "involvedObject": {"kind": "Node", "name": "n", "namespace": "` + namespace + `"}}`
	}
	eviction := `{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", "namespace": "kube-system"}}`
	return []request{
		{"GET", "/api/v1/nodes/n", "", "get nodes @*"},
		{"PATCH", "/api/v1/nodes/n", `{"spec": {"unschedulable": true}}`, "patch nodes @*"},
		{"PATCH", "/api/v1/nodes/n/status", `{"status": {"conditions": [{"type": "NVIDIADriverReady", "status": "True"}]}}`, "patch nodes/status @*"},
		{"GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn", "", "list pods @*"},
		{"POST", "/api/v1/namespaces/kube-system/pods/p/eviction", eviction, "create pods/eviction @*"},
		{"GET", "/apis/resource.k8s.io/v1/namespaces/kube-system/resourceclaims/c", "", "get resourceclaims.resource.k8s.io @*"},
		{"POST", "/api/v1/namespaces/" + own + "/events", event(own), "create events @own"},
		{"POST", "/api/v1/namespaces/default/events", event("default"), "create events @default"},

		{"POST", "/api/v1/namespaces/kube-system/events", event("kube-system"), ""},
		{"GET", "/api/v1/events", "", ""},
		{"GET", "/api/v1/nodes", "", ""},
		{"PUT", "/api/v1/nodes/n", `{"metadata": {"name": "n"}}`, ""},
		{"DELETE", "/api/v1/nodes/n", "", ""},
		{"GET", "/api/v1/nodes/n/proxy/pods", "", ""},
		{"GET", "/api/v1/pods?watch=1", "", ""},
		{"GET", "/apis/resource.k8s.io/v1/resourceclaims", "", ""},
		{"DELETE", "/apis/resource.k8s.io/v1/namespaces/kube-system/resourceclaims/c", "", ""},
		{"GET", "/api/v1/namespaces/kube-system/pods/p", "", ""},
		{"DELETE", "/api/v1/namespaces/kube-system/pods/p", "", ""},
		{"PATCH", "/api/v1/namespaces/kube-system/pods/p", `{"metadata": {"labels": {"a": "b"}}}`, ""},
		{"POST", "/api/v1/namespaces/" + own + "/pods", `{"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}`, ""},
		{"GET", "/api/v1/namespaces/" + own + "/secrets", "", ""},
		{"GET", "/api/v1/namespaces/" + own + "/configmaps", "", ""},
		{"POST", "/api/v1/namespaces/" + own + "/serviceaccounts/gpu-nvidia-driver/token", `{}`, ""},
		{"PATCH", "/apis/apps/v1/namespaces/" + own + "/daemonsets/gpu-nvidia-driver", `{"metadata": {"labels": {"a": "b"}}}`, ""},
		{"DELETE", "/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin", "", ""},
	}
}

// try sends a request as the given user, and says whether the API server allowed it. An allowed request has
// to work.
func try(t *testing.T, p *control.Plane, r request) bool {
	t.Helper()
	config := restConfig(t, p)
	client := require.Value(rest.HTTPClientFor(config))(t)
	defer client.CloseIdleConnections()
	url := config.Host + r.path
	if r.method != http.MethodGet {
		url += "?dryRun=All"
	}
	req := require.Value(http.NewRequestWithContext(t.Context(), r.method, url, bytes.NewBufferString(r.body)))(t)
	req.Header.Set("Content-Type", map[string]string{http.MethodPatch: "application/merge-patch+json"}[r.method])
	if r.method != http.MethodPatch {
		req.Header.Set("Content-Type", "application/json")
	}
	answer := require.Value(client.Do(req))(t)
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	switch {
	case err != nil:
		t.Fatal(err)
	case answer.StatusCode == http.StatusForbidden:
		return false
	case answer.StatusCode >= 300:
		t.Errorf("%s %s: %s: %s", r.method, r.path, answer.Status, body)
	}
	return true
}
