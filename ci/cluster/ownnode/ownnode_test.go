// Package ownnode tests the chart's option rbac.ownNodeOnly with a real API server: it sends the requests of
// driver-entrypoint and driver-evict with the token of a driver pod, for the pod's own node and for another.
package ownnode

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/cluster/control"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/node/kubernetes"
)

const (
	namespace = "gpu"
	account   = "gpu-nvidia-driver"
	objects   = `{"apiVersion":"v1","kind":"List","items":[
		{"apiVersion":"v1","kind":"Node","metadata":{"name":"a"}},
		{"apiVersion":"v1","kind":"Node","metadata":{"name":"b"}},
		{"apiVersion":"v1","kind":"Pod","metadata":{"name":"driver","namespace":"` + namespace + `"},"spec":{
			"nodeName":"a","serviceAccountName":"` + account + `","automountServiceAccountToken":false,"containers":[{"name":"c","image":"i"}]}}]}`
	annotate  = `{"metadata":{"annotations":{"x":"1"}}}`
	starting  = "example.com/starting"
	condition = `{"status":{"conditions":[{"type":"NVIDIADriverReady","status":"True"}]}}`
)

// Roles give the right to change all nodes. With the policy a pod changes its own node only, and a token of
// the same account that belongs to no pod changes none.
func TestOwnNodeOnly(t *testing.T) {
	control.Gate(t)
	p := control.Start(t, control.Config{})
	p.Kubectl("create", "namespace", namespace)
	p.Helm("install", "gpu", "../../../deploy/chart", "-n", namespace, "--set", "image.repository=r.example.com/d,image.tag=535.261.03-debian12",
		"--set", "safeLoad=true,nodeCondition=true,rbac.ownNodeOnly=true,startupTaints={"+starting+"}")
	if out, err := p.KubectlInput(objects, "create", "-f", "-"); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	server := newServer(t, p)
	pod := p.Kubectl("create", "token", account, "-n", namespace, "--bound-object-kind", "Pod", "--bound-object-name", "driver")
	unbound := p.Kubectl("create", "token", account, "-n", namespace)

	// A policy takes effect some moments after it was made.
	p.Wait(time.Minute, "the policy refuses another node", func() error {
		if code, body := server.patch(t, pod, "b", annotate); code != http.StatusForbidden {
			return fmt.Errorf("status %d: %s", code, body)
		}
		return nil
	})
	for _, c := range []struct {
		name, token, path, body, refusal string
		code                             int
	}{
		{"its node", pod, "a", annotate, "", http.StatusOK},
		{"condition of its node", pod, "a/status", condition, "", http.StatusOK},
		{"another node", pod, "b", annotate, "may change its own node only, not b", http.StatusForbidden},
		{"condition of another node", pod, "b/status", condition, "may change its own node only, not b", http.StatusForbidden},
		{"a token of no pod", unbound, "a", annotate, "may change its own node only, not a", http.StatusForbidden},
	} {
		if code, body := server.patch(t, c.token, c.path, c.body); code != c.code || !strings.Contains(body, c.refusal) {
			t.Errorf("%s: status %d, want %d with %q: %s", c.name, code, c.code, c.refusal, body)
		}
	}
	t.Run("taints", func(t *testing.T) { taints(t, p.With(t), server, pod) })
	p.Kubectl("annotate", "node", "b", "x=2") // the policy does not restrict other users
}

// A driver pod removes startup taints from its own node, and no others; it adds none. Other users
// may do both.
func taints(t *testing.T, p *control.Plane, s server, token string) {
	for _, node := range []string{"a", "b"} {
		p.Kubectl("taint", "node", node, starting+"=x:NoSchedule", "example.com/other=y:NoSchedule", starting+":NoExecute")
	}
	keys := func(node string) string {
		return strings.TrimSpace(p.Kubectl("get", "node", node, "-o", `jsonpath={range .spec.taints[*]}{.key}:{.effect} {end}`))
	}
	before := keys("a")
	for _, c := range []struct{ name, body, refusal string }{
		{"adds a taint", `{"spec":{"taints":[{"key":"example.com/new","effect":"NoSchedule"}]}}`, "may add no taint to a"},
		{"changes a taint", `{"spec":{"taints":[{"key":"example.com/other","effect":"NoSchedule","value":"z"}]}}`, "may add no taint to a"},
	} {
		if code, body := s.patch(t, token, "a", c.body); code != http.StatusForbidden || !strings.Contains(body, c.refusal) {
			t.Errorf("%s: status %d, want 403 with %q: %s", c.name, code, c.refusal, body)
		}
	}
	client := kubernetes.New(s.url, s.account(t, token))
	_, err := client.RemoveTaints(t.Context(), "a", []string{"example.com/other"})
	if !errors.Is(err, kubernetes.ErrForbidden) || !strings.Contains(err.Error(), "may remove startup taints only, from a") {
		t.Errorf("another's taint: %v", err)
	}
	assert.Equal(t, before, keys("a"))
	removed, err := client.RemoveTaints(t.Context(), "a", []string{starting})
	if err != nil || len(removed) != 1 || strings.Contains(keys("a"), starting) || !strings.Contains(keys("a"), "example.com/other:NoSchedule") {
		t.Errorf("removed %q, %v; left %s", removed, err, keys("a"))
	}
	if _, err := client.RemoveTaints(t.Context(), "b", []string{starting}); !errors.Is(err, kubernetes.ErrForbidden) || !strings.Contains(keys("b"), starting) {
		t.Errorf("another node: %v; left %s", err, keys("b"))
	}
}

// server is the API server as a pod connects to it: its address, and its authority.
type server struct {
	url       string
	authority []byte
	client    *http.Client
}

// account returns a folder as Kubernetes mounts it into a pod with this token.
func (s server) account(t *testing.T, token string) string {
	t.Helper()
	dir := t.TempDir()
	testfile.Write(t, dir+"/token", token)
	testfile.Write(t, dir+"/ca.crt", string(s.authority))
	return dir
}

func newServer(t *testing.T, p *control.Plane) server {
	t.Helper()
	view := func(field string) string {
		return p.Kubectl("config", "view", "--raw", "-o", "jsonpath={.clusters[0].cluster."+field+"}")
	}
	authority, err := base64.StdEncoding.DecodeString(strings.TrimSpace(view("certificate-authority-data")))
	require.NoErrorf(t, err, "read the authority in the kubeconfig")
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		t.Fatal("the kubeconfig has no authority")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	return server{strings.TrimSpace(view("server")), authority, &http.Client{Transport: transport, Timeout: 10 * time.Second}}
}

func (s server) patch(t *testing.T, token, path, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, s.url+"/api/v1/nodes/"+path, strings.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(token))
	request.Header.Set("Content-Type", "application/strategic-merge-patch+json")
	response, err := s.client.Do(request)
	require.NoErrorf(t, err, "patch node %s", path)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	require.NoErrorf(t, err, "read the answer to a patch of node %s", path)
	return response.StatusCode, string(text)
}
