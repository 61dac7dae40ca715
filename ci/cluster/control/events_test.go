package control_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/cluster/control"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/kubernetes"
	"github.com/driver-container/driver-container/node/status"
)

// The rights are those that the options need, one by one.
const objects = `
apiVersion: v1
kind: Namespace
metadata: {name: gpu}
---
apiVersion: v1
kind: Node
metadata: {name: node-1}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: driver, namespace: gpu}
---
apiVersion: v1
kind: Pod
metadata: {name: driver-x, namespace: gpu}
spec: {serviceAccountName: driver, nodeName: node-1, containers: [{name: c, image: none}]}
`

func grant(t *testing.T, p *control.Plane, name, rule string) {
	t.Helper()
	text := fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: %[1]s}
rules: [%[2]s]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[1]s}
subjects: [{kind: ServiceAccount, name: driver, namespace: gpu}]
`, name, rule)
	require.Value(p.KubectlInput(text, "apply", "-f", "-"))(t)
}

// driver is a status that the test changes.
type driver struct {
	mu      sync.Mutex
	st      status.Snapshot
	changed chan struct{}
	said    logtest.Log
}

func (d *driver) Status() status.Snapshot { d.mu.Lock(); defer d.mu.Unlock(); return d.st }

func (d *driver) set(st status.Snapshot) {
	d.mu.Lock()
	d.st = st
	d.mu.Unlock()
	d.changed <- struct{}{}
}

func TestEvents(t *testing.T) {
	p := control.Start(t, control.Config{})
	p.Wait(30*time.Second, "the objects", func() error {
		_, err := p.KubectlInput(objects, "apply", "-f", "-")
		return err
	})
	client := kubernetes.New(p.Account(p.Kubectl("create", "token", "driver", "-n", "gpu"), "gpu"))
	uid := p.Kubectl("get", "pod", "driver-x", "-n", "gpu", "-o", "jsonpath={.metadata.uid}")
	t.Run("without rights", func(t *testing.T) { withoutRights(t, client) })
	grant(t, p, "events", `{apiGroups: [""], resources: [events], verbs: [create, patch]}`)
	grant(t, p, "condition", `{apiGroups: [""], resources: [nodes/status], verbs: [patch]}`)
	t.Run("events and condition", func(t *testing.T) { life(t, p.With(t), client, uid) })
	grant(t, p, "safe-load", `{apiGroups: [""], resources: [nodes], verbs: [get, patch]}`)
	t.Run("safe load", func(t *testing.T) { safeLoad(t, p.With(t), client) })
}

// withoutRights: each way of reporting says once which right is missing, in the server's words.
func withoutRights(t *testing.T, client *kubernetes.Client) {
	d := &driver{changed: make(chan struct{}, 1), st: status.Snapshot{State: status.Degraded, Reason: "x"}}
	r := kubernetes.StartReporter(t.Context(), kubernetes.Source{Status: d.Status, Changed: d.changed}, options(client, d, "some-uid"))
	d.set(status.Snapshot{State: status.Serving, Up: &status.Driver{Version: "535.261.03", Flavour: "open"}})
	deadline := time.Now().Add(20 * time.Second)
	for said := 0; said < 2 && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		said = strings.Count(d.said.String(), "reporting failed")
	}
	closing, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	r.Close(closing)
	text := d.said.String()
	if strings.Count(text, "reporting failed") != 2 || !strings.Contains(text, `cannot patch resource "nodes/status"`) || !strings.Contains(text, `cannot create resource "events"`) {
		t.Errorf("said\n%s", text)
	}
	assert.ErrorIsf(t, assert.Err(kubernetes.NewSafeLoad(client, "node-1", "driver-x").Ask(t.Context())), kubernetes.ErrForbidden, "safe load")
}

func options(client *kubernetes.Client, d *driver, uid string) kubernetes.ReportOptions {
	return kubernetes.ReportOptions{Events: true, Condition: true, Client: client, Node: "node-1", Pod: kubernetes.Pod("gpu", "driver-x", uid), Log: d.said.Logger()}
}

// life goes from the wait for a holder to a clean stop, and reads the results with kubectl.
func life(t *testing.T, p *control.Plane, client *kubernetes.Client, uid string) {
	d := &driver{changed: make(chan struct{}, 1)}
	r := kubernetes.StartReporter(t.Context(), kubernetes.Source{Status: d.Status, Changed: d.changed}, options(client, d, uid))
	condition := func(want string) {
		t.Helper()
		p.Wait(20*time.Second, "condition "+want, func() error {
			got := p.Kubectl("get", "node", "node-1", "-o", `jsonpath={range .status.conditions[?(@.type=="NVIDIADriverReady")]}{.status} {.reason} {.message}{end}`)
			if !strings.Contains(got, want) {
				return fmt.Errorf("the condition is %q", got)
			}
			return nil
		})
	}
	d.set(status.Snapshot{State: status.Waiting, WaitsFor: status.ForHolders, Reason: "driver 470.256.02 must go before 535.261.03 can be loaded: in use by pid 7 (python3) in pod team/train-0",
		Holders: []kmod.Holder{{PID: 7, PodName: "train-0", PodNamespace: "team"}}})
	condition("False Waiting driver 470.256.02 must go")
	first := p.Kubectl("get", "node", "node-1", "-o", "jsonpath={.status.conditions[0].lastTransitionTime}")
	d.set(status.Snapshot{State: status.Serving, Ready: true, Kernel: "6.1.0", Up: &status.Driver{Version: "535.261.03", Flavour: "open", Source: "image"}})
	condition("True Serving driver 535.261.03 (open modules, from the image) serves kernel 6.1.0")
	assert.Equalf(t, true, first != "", "there is a transition time")
	describe := func(what ...string) string { return p.Kubectl(append([]string{"describe"}, what...)...) }
	see := func(text string, wants ...string) {
		t.Helper()
		for _, want := range wants {
			assert.Contains(t, text, want)
		}
	}
	p.Wait(20*time.Second, "the last Event", func() error {
		if text := describe("pod", "-n", "gpu", "driver-x"); !strings.Contains(text, "Serving") {
			return errors.New(text)
		}
		return nil
	})
	see(describe("pod", "-n", "gpu", "driver-x"), "WaitingForHolders", "in pod team/train-0", "Normal", "Warning")
	see(describe("node", "node-1"), "NVIDIADriverReady", "WaitingForHolders", "Serving", "nvidia-driver")
	see(p.Kubectl("get", "events", "-A", "--field-selector", "involvedObject.kind=Node"), "default", "node/node-1")
	d.set(status.Snapshot{State: status.Absent})
	closing, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	r.Close(closing)
	condition("False Stopped")
	see(describe("pod", "-n", "gpu", "driver-x"), "Stopped")
	assert.Equalf(t, "", d.said.String(), "warnings")
}

// safeLoad tests the handshake; kubectl takes the part of the controller.
func safeLoad(t *testing.T, p *control.Plane, client *kubernetes.Client) {
	p.Kubectl("annotate", "node", "node-1", status.SafeLoadAnnotation+"=dead-pod")
	safe := kubernetes.NewSafeLoad(client, "node-1", "driver-x")
	ask := func(want bool) {
		t.Helper()
		if granted, err := safe.Ask(t.Context()); err != nil || granted != want {
			t.Fatalf("granted %v, %v; want %v", granted, err, want)
		}
	}
	value := func(want string) {
		t.Helper()
		text := p.Kubectl("get", "node", "node-1", "-o", "jsonpath={.metadata.annotations}")
		if got := strings.Contains(text, status.SafeLoadAnnotation); got != (want != "") || !strings.Contains(text, want) {
			t.Errorf("annotations %s, want %q", text, want)
		}
	}
	ask(false)
	value("driver-x")
	ask(false)
	p.Kubectl("annotate", "node", "node-1", status.SafeLoadAnnotation+"-")
	ask(true)
	safe = kubernetes.NewSafeLoad(client, "node-1", "driver-y")
	ask(false)
	value("driver-y")
	assert.NoError(t, safe.Withdraw(context.Background()))
	value("")
	p.Kubectl("annotate", "node", "node-1", status.SafeLoadAnnotation+"=someone")
	assert.NoError(t, safe.Withdraw(context.Background()))
	value("someone")
}
