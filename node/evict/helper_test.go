package evict

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/daemons"
	"github.com/driver-container/driver-container/node/lock"
	"github.com/driver-container/driver-container/node/status"
)

// pod returns a running pod; owner is the kind of its controller, "" for none.
func pod(name, owner string, edit ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID("uid-" + name)}}
	if owner != "" {
		yes := true
		p.OwnerReferences = []metav1.OwnerReference{{Kind: owner, Name: "owner", UID: types.UID("uid-owner-" + name), Controller: &yes}}
	}
	p.Spec.NodeName, p.Spec.Containers, p.Status.Phase = nodeName, []corev1.Container{{Name: "main"}}, corev1.PodRunning
	for _, e := range edit {
		e(p)
	}
	return p
}

// ours is a pod as the program reads it.
func ours(p *corev1.Pod) *Pod {
	data, err := json.Marshal(p)
	var out Pod
	if err = errors.Join(err, json.Unmarshal(data, &out)); err != nil {
		panic(err)
	}
	return &out
}

// gpu requests one of NVIDIA's resources.
func gpu(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceName(name): resource.MustParse("1")}
	}
}

func selector(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{key: value} }
}

// driver plays driver-entrypoint of the same pod: it writes the status file and continues when the annotation
// is gone.
type driver struct {
	t    *testing.T
	c    *cluster
	run  string
	name string
	lock *os.File     // the node's; closed: the instance was killed
	fate status.State // how its start ends: Serving, or another state
	hold func() []kmod.Holder

	st   *status.Store
	done sync.WaitGroup
}

func newDriver(t *testing.T, c *cluster) *driver {
	d := &driver{t: t, c: c, run: t.TempDir(), name: "driver-abc", fate: status.Serving, hold: func() []kmod.Holder { return nil }}
	d.st = status.NewStore(status.Snapshot{}, status.Folder(d.run), logtest.New(t))
	d.lock = require.Value(os.Create(lock.Path(d.run)))(t) // of the node, which an instance holds while it lives
	require.NoError(t, unix.Flock(int(d.lock.Fd()), unix.LOCK_EX))
	t.Cleanup(func() { _ = d.lock.Close() })
	t.Cleanup(d.done.Wait)
	return d
}

func (d *driver) state(s status.State, phase string, holders ...kmod.Holder) {
	up := &status.Driver{Version: "470.256.02"}
	if s == status.Serving {
		up.Version = "535.261.03"
	}
	now := status.Snapshot{Schema: status.Schema, Pod: d.name, Wanted: "535.261.03", Instance: "of " + d.name,
		State: s, Phase: phase, Ready: s == status.Serving, Up: up, Holders: holders}
	d.st.Change(func(st *status.Snapshot) { *st = now })
}

// ask starts a safe load.
func (d *driver) ask() {
	d.state(status.Waiting, "replace", d.hold()...)
	d.annotate()
}

// annotate sets its annotation.
func (d *driver) annotate() { d.c.locked(func() { d.c.annotate(status.SafeLoadAnnotation, d.name) }) }

// now returns its state.
func (d *driver) now() status.State { return d.st.Get().State }

// begin runs upgrade concurrently with the test.
func (d *driver) begin(ctx context.Context) { d.done.Go(func() { d.upgrade(ctx) }) }

// upgrade runs from the request to the end of the start, or of ctx.
func (d *driver) upgrade(ctx context.Context) {
	d.ask()
	for {
		if !daemons.Sleep(ctx, time.Second) {
			return
		}
		var wait bool
		d.c.locked(func() { wait = d.c.node.Annotations[status.SafeLoadAnnotation] == d.name })
		holders := d.hold()
		if !wait && len(holders) == 0 {
			break
		}
		d.state(status.Waiting, "replace", holders...)
	}
	for _, phase := range []string{"replace", "load", "verify"} {
		d.state(status.Starting, phase)
		if !daemons.Sleep(ctx, time.Second) {
			return
		}
	}
	d.state(d.fate, "")
}

// bench is an agent on a cluster with a driver.
type bench struct {
	*cluster
	d   *driver
	cfg Config

	log logtest.Log
}

func newBench(t *testing.T, pods ...*corev1.Pod) *bench {
	b := &bench{cluster: newCluster(t, pods...)}
	b.d = newDriver(t, b.cluster)
	b.cfg = Defaults()
	b.cfg.Node, b.cfg.Pod, b.cfg.Namespace, b.cfg.UID, b.cfg.Run = nodeName, b.d.name, "nvidia", "uid-driver-abc", b.d.run
	require.NoError(t, b.cfg.Check())
	b.pods = append(b.pods, pod("driver-abc", "DaemonSet", selector(deployPrefix+"driver", "true")))
	return b
}

// play calls f with a bench in a bubble of testing/synctest.
func play(t *testing.T, pods []*corev1.Pod, f func(t *testing.T, b *bench)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { f(t, newBench(t, pods...)) })
}

func (b *bench) agent() *Agent { return New(b.cfg, b.client(), b.log.Logger(), func() {}) }

// start runs an agent until the returned function ends it.
func (b *bench) start() (stop func() error) {
	ctx, cancel := context.WithCancel(b.t.Context())
	end := make(chan error, 1)
	go func() { end <- b.agent().Run(ctx) }()
	return func() error { cancel(); return <-end }
}

// run runs an agent until the end of the test, and begins an upgrade.
func (b *bench) run(d time.Duration) {
	stop := b.start()
	b.t.Cleanup(func() { _ = stop() })
	b.d.begin(b.t.Context())
	time.Sleep(d)
}

// names lists the existing pods.
func (b *bench) names() string {
	var out []string
	b.locked(func() {
		b.play()
		for _, p := range b.pods {
			out = append(out, p.Name)
		}
	})
	return strings.Join(out, " ")
}

// holds makes pods have the driver open as long as they are there.
func (b *bench) holds(names ...string) {
	b.d.hold = func() (out []kmod.Holder) {
		for _, name := range names {
			if strings.Contains(b.names(), name) {
				out = append(out, kmod.Holder{PID: 7, Pod: "uid-" + name})
			}
		}
		return out
	}
}

// pristine checks that the node is as it was before.
func (b *bench) pristine(cordonedBefore bool) {
	b.t.Helper()
	want, got := newCluster(b.t).see(), b.see()
	for key, value := range want.labels {
		if got.labels[key] != value {
			b.t.Errorf("label %s is %q, it was %q", key, got.labels[key], value)
		}
	}
	assert.Equalf(b.t, "", got.annotations[Annotation], "the record stands")
	if got.cordoned != cordonedBefore {
		b.t.Errorf("cordoned: %v, it was %v", got.cordoned, cordonedBefore)
	}
	if b.t.Failed() {
		b.t.Logf("log:\n%s", b.log.String())
	}
}
