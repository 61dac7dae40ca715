package control_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/driver-container/driver-container/ci/cluster/control"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/node/kubernetes"
)

const (
	serviceAccount = "gpu-nvidia-driver"
	ownObjects     = `{"apiVersion":"v1","kind":"List","items":[
		{"apiVersion":"v1","kind":"Node","metadata":{"name":"a"}},
		{"apiVersion":"v1","kind":"Node","metadata":{"name":"b"}},
		{"apiVersion":"v1","kind":"Pod","metadata":{"name":"driver","namespace":"gpu"},"spec":{
			"nodeName":"a","serviceAccountName":"` + serviceAccount + `","automountServiceAccountToken":false,"containers":[{"name":"c","image":"i"}]}}]}`
	annotation = `{"metadata":{"annotations":{"x":"1"}}}`
	starting   = "example.com/starting"
	condition  = `{"status":{"conditions":[{"type":"NVIDIADriverReady","status":"True"}]}}`
)

// Roles give the right to change all nodes. With the policy of rbac.ownNodeOnly a pod changes its own node only,
// removes startup taints from it and no others, and adds none; a token of the same account that belongs to no pod
// changes no node.
func TestOwnNodeOnly(t *testing.T) {
	p := control.Start(t, control.Config{})
	p.Kubectl("create", "namespace", "gpu")
	p.Helm("install", "gpu", "../../../deploy/chart", "-n", "gpu", "--set", "image.repository=r.example.com/d,image.tag=535.261.03-debian12",
		"--set", "safeLoad=true,nodeCondition=true,rbac.ownNodeOnly=true,startupTaints={"+starting+"}")
	require.Value(p.KubectlInput(ownObjects, "create", "-f", "-"))(t)
	for _, node := range []string{"a", "b"} {
		p.Kubectl("taint", "node", node, starting+"=x:NoSchedule", "example.com/other=y:NoSchedule", starting+":NoExecute")
	}
	token := p.Kubectl("create", "token", serviceAccount, "-n", "gpu", "--bound-object-kind", "Pod", "--bound-object-name", "driver")
	pod, unbound := p.WithToken(token), p.WithToken(p.Kubectl("create", "token", serviceAccount, "-n", "gpu"))
	patch := func(p *control.Plane, node, body string, subresources ...string) error {
		clients, _ := p.Go()
		return assert.Err(clients.CoreV1().Nodes().Patch(t.Context(), node, types.StrategicMergePatchType, []byte(body), meta.PatchOptions{}, subresources...))
	}
	p.Wait(time.Minute, "the policy refuses another node", func() error { // it takes effect some moments after it was made
		if err := patch(pod, "b", annotation); err == nil || !strings.Contains(err.Error(), "its own node only") {
			return errors.Join(err, errors.New("not yet"))
		}
		return nil
	})
	assert.NoError(t, patch(pod, "a", annotation))
	assert.NoError(t, patch(pod, "a", condition, "status"))
	assert.ErrorContains(t, patch(pod, "b", annotation), "may change its own node only, not b")
	assert.ErrorContains(t, patch(pod, "b", condition, "status"), "may change its own node only, not b")
	assert.ErrorContains(t, patch(unbound, "a", annotation), "may change its own node only, not a")
	assert.ErrorContains(t, patch(pod, "a", `{"spec":{"taints":[{"key":"example.com/new","effect":"NoSchedule"}]}}`), "may add no taint to a")
	assert.ErrorContains(t, patch(pod, "a", `{"spec":{"taints":[{"key":"example.com/other","effect":"NoSchedule","value":"z"}]}}`), "may add no taint to a")
	p.Kubectl("annotate", "node", "b", "x=2") // the policy does not restrict other users

	keys := func(node string) string {
		return strings.TrimSpace(p.Kubectl("get", "node", node, "-o", `jsonpath={range .spec.taints[*]}{.key}:{.effect} {end}`))
	}
	before := keys("a")
	client := kubernetes.New(p.Account(token, "gpu"))
	_, err := client.RemoveTaints(t.Context(), "a", []string{"example.com/other"})
	assert.ErrorIs(t, err, kubernetes.ErrForbidden)
	assert.ErrorContains(t, err, "may remove startup taints only, from a")
	assert.Equal(t, before, keys("a"))
	removed, err := client.RemoveTaints(t.Context(), "a", []string{starting})
	if err != nil || len(removed) != 1 || strings.Contains(keys("a"), starting) || !strings.Contains(keys("a"), "example.com/other:NoSchedule") {
		t.Errorf("removed %q, %v; left %s", removed, err, keys("a"))
	}
	assert.ErrorIs(t, assert.Err(client.RemoveTaints(t.Context(), "b", []string{starting})), kubernetes.ErrForbidden)
	assert.Equal(t, before, keys("b"))
}
