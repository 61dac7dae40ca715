package eviction

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/driver-container/driver-container/ci/testkit/require"
)

// history is what happened on a node, in the order of the API server.
type history []string

// before checks that all of first came before the first of second.
func (h history) before(t *testing.T, first, second string) {
	t.Helper()
	last := len(h) - 1
	for last >= 0 && h[last] != first {
		last--
	}
	if i := slices.Index(h, second); last < 0 || i < 0 || last > i {
		t.Errorf("%q does not come before %q: %q", first, second, h)
	}
}

// recorder watches a node and its pods.
type recorder struct {
	cancel context.CancelFunc
	done   chan history
}

// watch begins to record: pods that are gone ("end APP"), labels that are paused and restored, the cordon.
// Only the first change of each is recorded for pods that come back afterwards.
func (e *site) watch() *recorder {
	e.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	pods := require.Value(e.core.Pods("").Watch(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + e.name}))(e.t)
	nodes := require.Value(e.core.Nodes().Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + e.name}))(e.t)
	r := &recorder{cancel: cancel, done: make(chan history, 1)}
	go func() {
		defer pods.Stop()
		defer nodes.Stop()
		var events []versioned
		last := e.nodeState(nil)
		for {
			select {
			case <-ctx.Done():
				r.done <- ordered(events)
				return
			case ev := <-pods.ResultChan():
				if p, ok := ev.Object.(*corev1.Pod); ok && ev.Type == watch.Deleted {
					events = append(events, versioned{p.ResourceVersion, "end " + p.Labels["app"]})
				}
			case ev := <-nodes.ResultChan():
				n, ok := ev.Object.(*corev1.Node)
				if !ok {
					continue
				}
				state := e.nodeState(n)
				for what := range state {
					if last != nil && !last[what] {
						events = append(events, versioned{n.ResourceVersion, what})
					}
				}
				last = state
			}
		}
	}()
	e.t.Cleanup(cancel)
	return r
}

// nodeState says of each deploy label whether it is paused, and whether the node is cordoned.
func (e *site) nodeState(n *corev1.Node) map[string]bool {
	if n == nil {
		return nil
	}
	out := map[string]bool{}
	for key, value := range n.Labels {
		if name, ok := strings.CutPrefix(key, deploy); ok {
			verb := "resume "
			if strings.Contains(value, "paused-for-driver-upgrade") {
				verb = "pause "
			}
			out[verb+name] = true
		}
	}
	out[map[bool]string{true: "cordon", false: "uncordon"}[n.Spec.Unschedulable]] = true
	return out
}

// versioned is an event with the version that the API server gave it.
type versioned struct{ version, what string }

// ordered sorts by version: the two watches are independent. A version is a decimal number.
func ordered(events []versioned) history {
	slices.SortStableFunc(events, func(a, b versioned) int {
		if len(a.version) != len(b.version) {
			return len(a.version) - len(b.version)
		}
		return strings.Compare(a.version, b.version)
	})
	var h history
	for _, e := range events {
		h = append(h, e.what)
	}
	return h
}

// stop returns what was recorded.
func (r *recorder) stop() history {
	r.cancel()
	return <-r.done
}

// podOf returns the name of an app's pod on the node.
func (e *site) podOf(app string) string {
	e.t.Helper()
	pods := require.Value(e.pods())(e.t)
	i := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Labels["app"] == app && p.DeletionTimestamp == nil })
	if i < 0 {
		e.t.Fatalf("%s has no pod of %s", e.name, app)
	}
	return pods[i].Name
}
