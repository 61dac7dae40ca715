package evict

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
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
	"github.com/driver-container/driver-container/node/lock"
	"github.com/driver-container/driver-container/node/status"
)

// pod returns a running pod; owner is the kind of its controller, "" for none.
func pod(name, owner string, edit ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID("uid-" + name)}}
	if owner != "" {
		yes := true
		p.OwnerReferences = []metav1.OwnerReference{{Kind: owner, Name: "owner", Controller: &yes}}
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

	mu   sync.Mutex
	st   status.Snapshot
	done sync.WaitGroup
}

func newDriver(t *testing.T, c *cluster) *driver {
	d := &driver{t: t, c: c, run: t.TempDir(), name: "driver-abc", fate: status.Serving}
	d.lock = require.Value(os.Create(lock.Path(d.run)))(t) // of the node, which an instance holds while it lives
	require.NoError(t, unix.Flock(int(d.lock.Fd()), unix.LOCK_EX))
	t.Cleanup(func() { _ = d.lock.Close() })
	t.Cleanup(d.done.Wait)
	return d
}

func (d *driver) write(edit func(*status.Snapshot)) {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	edit(&d.st)
	d.st.Schema, d.st.Pod, d.st.Wanted, d.st.Instance = status.Schema, d.name, "535.261.03", "of "+d.name
	d.replaceStatus(require.Value(json.Marshal(d.st))(d.t))
}

// replaceStatus replaces the file as the driver does: a reader sees all of it.
func (d *driver) replaceStatus(data []byte) {
	d.t.Helper()
	tmp := filepath.Join(d.run, ".tmp")
	err := os.WriteFile(tmp, data, 0o644)
	if err == nil {
		err = os.Rename(tmp, filepath.Join(d.run, "driver-status.json"))
	}
	if err != nil && d.t.Context().Err() == nil { // it may outlive the test by one write
		d.t.Error(err)
	}
}

func (d *driver) state(s status.State, phase string) {
	d.write(func(st *status.Snapshot) {
		st.State, st.Phase, st.Ready, st.Holders, st.Up = s, phase, s == status.Serving, nil, &status.Driver{Version: "470.256.02"}
		if st.Ready {
			st.Up.Version = "535.261.03"
		}
	})
}

// ask starts a safe load.
func (d *driver) ask() {
	d.state(status.Waiting, "replace")
	if d.hold != nil {
		holders := d.hold()
		d.write(func(st *status.Snapshot) { st.Holders = holders })
	}
	d.annotate()
}

// annotate sets its annotation.
func (d *driver) annotate() { d.c.locked(func() { d.c.annotate(status.SafeLoadAnnotation, d.name) }) }

// now returns its state.
func (d *driver) now() status.State {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.st.State
}

// begin runs upgrade concurrently with the test.
func (d *driver) begin(ctx context.Context) { d.done.Go(func() { d.upgrade(ctx) }) }

// upgrade runs from the request to the end of the start, or of ctx.
func (d *driver) upgrade(ctx context.Context) {
	d.ask()
	for {
		if !pause(ctx, time.Second) {
			return
		}
		var wait bool
		d.c.locked(func() { wait = d.c.node.Annotations[status.SafeLoadAnnotation] == d.name })
		var holders []kmod.Holder
		if d.hold != nil {
			holders = d.hold()
		}
		if !wait && len(holders) == 0 {
			break
		}
		d.write(func(st *status.Snapshot) { st.Holders = holders })
	}
	for _, phase := range []string{"replace", "load", "verify"} {
		d.state(status.Starting, phase)
		if !pause(ctx, time.Second) {
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
	b.bump()
	return b
}

// play calls f with a bench in a bubble of testing/synctest.
func play(t *testing.T, pods []*corev1.Pod, f func(t *testing.T, b *bench)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { f(t, newBench(t, pods...)) })
}

func (b *bench) agent() *Agent { return New(b.cfg, b.client(), b.log.Logger(), nil) }

// messages returns the whole log.
func (b *bench) messages() string { return b.log.String() }

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
		b.t.Logf("log:\n%s", b.messages())
	}
}
