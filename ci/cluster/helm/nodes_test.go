package helm

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/driver-container/driver-container/ci/cluster/control"
)

const (
	percent = 10 // of the nodes may be unavailable
	rollout = "10m"
)

// TestTwoHundredNodes takes two hundred nodes from no driver to a driver, to another driver, and into pools. A
// watcher receives every change of every pod: never two driver pods on a node, and never more nodes without a
// driver than declared.
func TestTwoHundredNodes(t *testing.T) {
	const crowd = 200
	t.Helper()
	p := control.Start(t, control.Config{Controllers: true, Scheduler: true, KWOK: true})
	client := clientset(t, p)
	namespace(t, p, "gpu")
	measure(t, fmt.Sprintf("%d nodes were made", crowd), func() { makeNodes(t, client, crowd) })
	w := watchPods(t, client, crowd)
	release := func(what, command string, values ...string) {
		values = append(values, fmt.Sprintf("updateStrategy.rollingUpdate.maxUnavailable=%d%%", percent))
		measure(t, what, func() {
			p.Helm(append([]string{command, "gpu", chart, "-n", "gpu", "--wait", "--timeout=" + rollout}, minimal(values...)...)...)
		})
	}
	release("installed everywhere", "install")
	w.serving(t, p, func(string) string { return "gpu-nvidia-driver" })

	w.restart()
	release("upgraded to another driver", "upgrade", "image.tag=550.163.01-debian12")
	w.serving(t, p, func(string) string { return "gpu-nvidia-driver" })
	if worst := w.mostUnavailable(); worst > crowd*percent/100 || worst < 2 {
		t.Errorf("at the worst moment of the upgrade %d nodes had no driver; want at most %d%%, and more than one", worst, percent)
	} else {
		t.Logf("at the worst moment of the upgrade %d nodes had no driver", worst)
	}
	for _, pod := range get[core.PodList](t, p, "pods", "-n", "gpu", "-l", selector).Items {
		if pod.Spec.Containers[0].Image != "registry.example.com/driver:550.163.01-debian12" {
			t.Fatalf("pod %s on node %s still has %s", pod.Name, pod.Spec.NodeName, pod.Spec.Containers[0].Image)
		}
	}

	release("split into two pools", "upgrade",
		"pools[0].name=first", "pools[0].nodeSelector.pool=first", "pools[1].name=second", "pools[1].nodeSelector.pool=second", "pools[1].tag=550.163.01-debian12")
	w.serving(t, p, func(node string) string { return "gpu-nvidia-driver-" + poolOf(node) })
}

func nodeName(i int) string { return fmt.Sprintf("node-%04d", i) }

// poolOf puts two nodes of five into the first pool.
func poolOf(node string) string {
	if strings.ContainsAny(node[len(node)-1:], "0123") {
		return "first"
	}
	return "second"
}

func makeNodes(t *testing.T, client *kubernetes.Clientset, crowd int) {
	t.Helper()
	var names []string
	for i := range crowd {
		names = append(names, nodeName(i))
	}
	each(t, names, func(ctx context.Context, name string) error {
		_, err := client.CoreV1().Nodes().Create(ctx, &core.Node{ObjectMeta: meta.ObjectMeta{Name: name, Labels: map[string]string{
			"feature.node.kubernetes.io/pci-10de.present": "true", "pool": poolOf(name), core.LabelHostname: name, core.LabelOSStable: "linux",
		}}}, meta.CreateOptions{})
		return err
	})
}

func measure(t *testing.T, what string, work func()) {
	t.Helper()
	begin := time.Now()
	work()
	t.Logf("%s in %s", what, time.Since(begin).Round(100*time.Millisecond))
}

// watcher follows all driver pods, change by change.
type watcher struct {
	crowd int // number of nodes
	mu    sync.Mutex
	on    map[string]map[types.UID]bool // node -> its pods -> whether the pod serves: ready, and not being deleted
	owner map[string]string             // node -> DaemonSet of the last pod on it
	up    int                           // nodes with a pod that serves
	worst int                           // the smallest value of up since restart
	twice []string                      // nodes that had two pods
	ended error
}

func watchPods(t *testing.T, client *kubernetes.Clientset, crowd int) *watcher {
	t.Helper()
	w := &watcher{crowd: crowd, on: map[string]map[types.UID]bool{}, owner: map[string]string{}}
	ctx, cancel := context.WithCancel(t.Context())
	pods := client.CoreV1().Pods("")
	first, err := pods.List(ctx, meta.ListOptions{LabelSelector: selector})
	if err != nil || len(first.Items) > 0 {
		t.Fatalf("the watch should begin before there is a driver pod: %d pods, %v", len(first.Items), err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.follow(ctx, pods, first.ResourceVersion)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

// follow receives every change after a version of the cluster. The API server ends the watches of slow
// clients; the next watch continues where the last one ended, and misses nothing: when a version is too old
// for that, the server returns an error.
func (w *watcher) follow(ctx context.Context, pods typed.PodInterface, version string) {
	for ctx.Err() == nil {
		events, err := pods.Watch(ctx, meta.ListOptions{LabelSelector: selector, ResourceVersion: version})
		if err != nil {
			w.fail(err)
			return
		}
		for event := range events.ResultChan() {
			pod, ok := event.Object.(*core.Pod)
			if !ok {
				w.fail(fmt.Errorf("the watch says %s: %v", event.Type, event.Object))
				events.Stop()
				return
			}
			version = pod.ResourceVersion
			w.see(event.Type, pod)
		}
	}
}

func (w *watcher) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = err
}

func (w *watcher) see(event watch.EventType, pod *core.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	node := pod.Spec.NodeName
	if node == "" {
		return // not on a node yet
	}
	if w.on[node] == nil {
		w.on[node] = map[types.UID]bool{}
	}
	before := w.serves(node)
	if event == watch.Deleted {
		delete(w.on[node], pod.UID)
	} else {
		w.on[node][pod.UID] = pod.DeletionTimestamp == nil && ready(pod)
		w.owner[node] = pod.OwnerReferences[0].Name
	}
	if len(w.on[node]) > 1 {
		w.twice = append(w.twice, node)
	}
	switch after := w.serves(node); {
	case after && !before:
		w.up++
	case before && !after:
		w.up--
	}
	w.worst = min(w.worst, w.up)
}

func (w *watcher) serves(node string) bool {
	for _, yes := range w.on[node] {
		if yes {
			return true
		}
	}
	return false
}

func ready(pod *core.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == core.PodReady {
			return c.Status == core.ConditionTrue
		}
	}
	return false
}

func (w *watcher) restart() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.worst = w.up
}

func (w *watcher) mostUnavailable() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.crowd - w.worst
}

// serving waits until every node has exactly one pod that serves, and the pod is of the DaemonSet that
// belongs to the node.
func (w *watcher) serving(t *testing.T, p *control.Plane, owner func(node string) string) {
	t.Helper()
	p.Wait(5*time.Minute, "one driver pod on every node", func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.ended != nil {
			t.Fatal(w.ended)
		}
		if len(w.twice) > 0 {
			t.Fatalf("there were two driver pods at once on %s", strings.Join(w.twice, " "))
		}
		if w.up != w.crowd {
			return fmt.Errorf("%d nodes of %d have one", w.up, w.crowd)
		}
		for i := range w.crowd {
			if node := nodeName(i); w.owner[node] != owner(node) || len(w.on[node]) != 1 {
				return fmt.Errorf("node %s has %d pods, the last one of %s", node, len(w.on[node]), w.owner[node])
			}
		}
		return nil
	})
}
