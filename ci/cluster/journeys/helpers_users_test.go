package journeys

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/driver-container/driver-container/ci/cluster"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/evict"
	"github.com/driver-container/driver-container/node/status"
)

// work is the namespace of programs that use a GPU.
const work = "work"

// user is a workload that uses a GPU: its pods request one, and hold the driver's control device as soon as
// that exists.
type user struct {
	kind     string // Deployment, DaemonSet
	name     string
	requests bool   // nvidia.com/gpu
	selector string // of nodes: a label that must be "true"; "" for none
	grace    int    // grace period of its pods in seconds
	stubborn bool   // its pods use the whole grace period
}

// apply creates the workload, and its namespace.
func (u user) apply(c *cluster.Cluster) {
	spec, limits, selector, flags := `selector: {matchLabels: {app: `+u.name+`}}`, "", "", ""
	if u.kind == "Deployment" {
		spec += ", replicas: 1"
	}
	if u.requests {
		limits = `resources: {limits: {nvidia.com/gpu: 1}},`
	}
	if u.selector != "" {
		selector = `nodeSelector: {` + u.selector + `: "true"},`
	}
	if u.stubborn {
		flags = `"-ignore-term", `
	}
	c.Apply(fmt.Sprintf(`{apiVersion: v1, kind: Namespace, metadata: {name: %s}}`, work))
	// The device files come and go with the driver: the program looks for them on the node, not in the
	// container's own /dev.
	c.Apply(fmt.Sprintf(`{apiVersion: apps/v1, kind: %s, metadata: {name: %s, namespace: %s}, spec: {%s, template: {metadata: {labels: {app: %s}},
		spec: {terminationGracePeriodSeconds: %d, %s tolerations: [{key: nvidia.com/gpu, operator: Exists}], containers: [{name: holder, image: "%s",
		args: ["-wait", %s"/host/dev/nvidiactl"], %s securityContext: {privileged: true}, volumeMounts: [{name: dev, mountPath: /host/dev}]}],
		volumes: [{name: dev, hostPath: {path: /dev}}]}}}}`, u.kind, u.name, work, spec, u.name, u.grace, selector, cluster.HolderImage, flags, limits))
}

// waitHolding waits until the workload's one pod has the driver open, and returns the pod.
func (u user) waitHolding(c *cluster.Cluster) corev1.Pod {
	var pod corev1.Pod
	c.Wait(startWait, u.name+" uses the driver", func() error {
		pods := slices.DeleteFunc(c.Pods("-n", work, "-l", "app="+u.name), func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
		if len(pods) != 1 || !cluster.Ready(pods[0]) {
			return errors.New(cluster.Summary(pods))
		}
		pod = pods[0]
		out, err := c.TryKubectl("logs", "-n", work, pod.Name)
		if err == nil && !strings.Contains(out, "holding") {
			err = fmt.Errorf("it says %q", out)
		}
		return err
	})
	return pod
}

// delete deletes the workload; its pods may exist for a while.
func (u user) delete(c *cluster.Cluster) {
	c.Kubectl("delete", strings.ToLower(u.kind), u.name, "-n", work, "--wait=false")
}

// waitStatus waits until wanted accepts the status on the node.
func waitStatus(c *cluster.Cluster, limit time.Duration, what string, wanted func(status.Snapshot) bool) status.Snapshot {
	var st status.Snapshot
	c.Wait(limit, what, func() error {
		if st = c.Status(); !wanted(st) {
			return fmt.Errorf("state %q, waits for %q, pod %s, wanted %s, holders %v: %s", st.State, st.WaitsFor, st.Pod, st.Wanted, st.Holders, st.Reason)
		}
		return nil
	})
	return st
}

// heldBy says whether the status names that pod among the holders.
func heldBy(st status.Snapshot, p corev1.Pod) bool {
	return slices.ContainsFunc(st.Holders, func(h kmod.Holder) bool { return h.PodNamespace == p.Namespace && h.PodName == p.Name })
}

// waitEvent waits for an Event with that reason about an object of that kind and name whose message contains
// all the words.
func waitEvent(t *testing.T, c *cluster.Cluster, kind, name, reason string, words ...string) corev1.Event {
	t.Helper()
	var found corev1.Event
	c.Wait(time.Minute, fmt.Sprintf("an Event %s of %s %s with %q", reason, kind, name, words), func() error {
		var seen []string
		for _, e := range c.Events() {
			if e.InvolvedObject.Kind != kind || e.InvolvedObject.Name != name {
				continue
			}
			seen = append(seen, e.Reason+": "+e.Message)
			if e.Reason == reason && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(e.Message, w) }) {
				found = e
				return nil
			}
		}
		return errors.New(strings.Join(seen, "; "))
	})
	return found
}

// waitCondition waits until the node's condition of the driver has that status and reason and a message with
// all the words.
func waitCondition(c *cluster.Cluster, status, reason string, words ...string) {
	c.Wait(time.Minute, fmt.Sprintf("condition NVIDIADriverReady %s %s %q", status, reason, words), func() error {
		out := c.Kubectl("get", "node", cluster.NodeName, "-o", `jsonpath={range .status.conditions[?(@.type=="NVIDIADriverReady")]}{.status} {.reason} {.message}{end}`)
		for _, w := range append(words, status+" "+reason+" ") {
			if !strings.Contains(out, w) {
				return errors.New(out)
			}
		}
		return nil
	})
}

// annotation returns the value of one of the node's annotations, "" for none.
func annotation(c *cluster.Cluster, name string) string {
	return c.Kubectl("get", "node", cluster.NodeName, "-o", `jsonpath={.metadata.annotations.`+strings.ReplaceAll(name, ".", `\.`)+`}`)
}

// label returns the value of one of the node's labels, "" for none.
func label(c *cluster.Cluster, name string) string {
	return c.Kubectl("get", "node", cluster.NodeName, "-o", `jsonpath={.metadata.labels.`+strings.ReplaceAll(name, ".", `\.`)+`}`)
}

// cordoned says whether the node takes no new pods.
func cordoned(c *cluster.Cluster) bool {
	return c.Kubectl("get", "node", cluster.NodeName, "-o", "jsonpath={.spec.unschedulable}") == "true"
}

// waitPutBack waits until all changes of an eviction to the node are undone.
func waitPutBack(c *cluster.Cluster) {
	c.Wait(time.Minute, "the node is as it was before the eviction", func() error {
		if r, s := annotation(c, evict.Annotation), annotation(c, status.SafeLoadAnnotation); r != "" || s != "" || cordoned(c) {
			return fmt.Errorf("cordoned %t, record %q, safe load %q", cordoned(c), r, s)
		}
		return nil
	})
}

// waitSuccessor waits until a release's pod runs the image of that driver, ready or not, and returns it.
func waitSuccessor(c *cluster.Cluster, release, driver string) corev1.Pod {
	_, tag := c.ImageRef(driver)
	var pod corev1.Pod
	c.Wait(startWait, "a running pod with driver "+driver, func() error {
		p, ok := podOf(c, release)
		if !ok || p.Status.Phase != corev1.PodRunning || !strings.HasSuffix(cluster.DriverImage(p), tag) {
			return errors.New(cluster.Summary(c.DriverPods()))
		}
		pod = p
		return nil
	})
	return pod
}
