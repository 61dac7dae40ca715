package evict

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/driver-container/driver-container/ci/testkit/apitest"
	"github.com/driver-container/driver-container/ci/testkit/assert"
)

// dra is the part of the cluster that concerns claims. As on a real node, a pod with a claim on NVIDIA's
// devices ends only while the kubelet plugin runs.
type dra struct {
	version  string            // of resource.k8s.io that is served; "" for none
	claims   map[string]string // NAMESPACE/NAME to the driver that allocated it; "": not allocated
	plugin   *corev1.Pod       // the kubelet plugin, which its DaemonSet starts where its label is
	started  int               // plugins
	timeline []string          // what ended and what was paused, in order
	asked    int               // calls for claims
}

const nvidiaGPU = "gpu.nvidia.com"

// getClaim answers as the API server does: with text for a group that it does not know, with a Status without
// a name for a version of one that it knows, and with a Status that names the claim if that does not exist.
func (c *cluster) getClaim(r *http.Request) (any, error) {
	c.dra.asked++
	unknown := apitest.Refuse(404, "the server could not find the requested resource")
	unknown.ErrStatus.Details = &metav1.StatusDetails{}
	switch {
	case c.dra.version == "":
		return nil, nil
	case r.PathValue("version") != c.dra.version:
		return nil, unknown
	}
	driver, ok := c.dra.claims[r.PathValue("namespace")+"/"+r.PathValue("name")]
	if !ok {
		unknown.ErrStatus.Details.Name = r.PathValue("name")
		return nil, unknown
	}
	status := map[string]any{}
	if driver != "" {
		status["allocation"] = map[string]any{"devices": map[string]any{"results": []any{
			map[string]any{"request": "net", "driver": "net.example.com", "pool": nodeName, "device": "nic-0"},
			map[string]any{"request": "gpu", "driver": driver, "pool": nodeName, "device": "gpu-0"},
		}}}
	}
	return map[string]any{"kind": "ResourceClaim", "spec": map[string]any{}, "status": status}, nil
}

func (c *cluster) note(what string) { c.dra.timeline = append(c.dra.timeline, what) }

// mayEnd says whether the kubelet can end a pod.
func (c *cluster) mayEnd(p *corev1.Pod) bool {
	running := slices.ContainsFunc(c.pods, func(q *corev1.Pod) bool { return strings.HasPrefix(q.Name, "kubelet-plugin") })
	names, _ := ours(p).claimNames()
	for _, name := range names {
		if driver := c.dra.claims[p.Namespace+"/"+name]; slices.Contains(draDrivers, driver) && !running {
			return false
		}
	}
	return true
}

// endDomain does what the plugin does when the domain's pods have ended.
func (c *cluster) endDomain() {
	if c.dra.plugin != nil && !slices.ContainsFunc(c.pods, func(q *corev1.Pod) bool { return q.Name == "channel" }) {
		delete(c.node.Labels, domainLabel)
	}
}

// restartPlugin does what the plugin's DaemonSet does.
func (c *cluster) restartPlugin() {
	p := c.dra.plugin
	if p == nil || c.node.Labels[pluginLabel] != "true" || slices.ContainsFunc(c.pods, func(q *corev1.Pod) bool { return strings.HasPrefix(q.Name, p.Name) }) {
		return
	}
	c.dra.started++
	again := p.DeepCopy()
	again.UID = types.UID(strings.Repeat("x", c.dra.started))
	c.pods = append(c.pods, again)
}

// before checks the order of the timeline.
func (b *bench) before(first, second string) {
	b.t.Helper()
	timeline := b.timeline()
	i, j := slices.Index(timeline, first), slices.Index(timeline, second)
	if i < 0 || j < 0 || i > j {
		b.t.Errorf("%q does not come before %q: %q", first, second, timeline)
	}
}

func (b *bench) timeline() (out []string) {
	b.locked(func() { out = slices.Clone(b.dra.timeline) })
	return out
}

// named gives a pod a claim by its name, template one that is made from a template.
func named(claim string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: "c-" + claim, ResourceClaimName: &claim})
	}
}

func template(claim string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		of := "gpu"
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: "made", ResourceClaimTemplateName: &of})
		if claim != "" {
			p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "made", ResourceClaimName: &claim}}
		}
	}
}

// extended gives a pod a claim that the scheduler made for extended resources of another name.
func extended(claim string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: claim}
	}
}

const draSurvivors = "nic early done driver-abc kubelet-plugin"

// newDRABench is a node on which claims of every kind are in use.
func newDRABench(t *testing.T) *bench {
	t.Helper()
	b := newBench(t,
		pod("train", "ReplicaSet", template("train-made")),
		pod("share-a", "Job", named("shared")), pod("share-b", "Job", named("shared")),
		pod("channel", "ReplicaSet", named("domain")), pod("extended", "ReplicaSet", extended("by-scheduler")),
		pod("validator", "DaemonSet", selector(deployPrefix+"dra-validator", "true"), template("validator-made")),
		pod("device-plugin", "DaemonSet", selector(deployPrefix+"device-plugin", "true")),
		pod("domain-daemon", "DaemonSet", selector(domainLabel, "uid-of-domain"), template("daemon-made")),
		pod("nic", "ReplicaSet", named("nic-only")), pod("early", "ReplicaSet", template("")),
		pod("done", "Job", named("shared"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }))
	b.cfg.ResourceClaims = true
	b.dra = dra{version: "v1", plugin: pod("kubelet-plugin", "DaemonSet", selector(pluginLabel, "true")),
		claims: map[string]string{"team/train-made": nvidiaGPU, "team/shared": nvidiaGPU, "team/domain": "compute-domain.nvidia.com", "team/by-scheduler": nvidiaGPU,
			"team/validator-made": nvidiaGPU, "team/daemon-made": "compute-domain.nvidia.com", "team/nic-only": "net.example.com", "team/without-a-pod": nvidiaGPU}}
	labels := b.node.Labels
	labels[pluginLabel], labels[deployPrefix+"dra-validator"], labels[domainLabel] = "true", "true", "uid-of-domain"
	b.restartPlugin()
	return b
}

// playDRA is play with newDRABench.
func playDRA(t *testing.T, f func(t *testing.T, b *bench)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { f(t, newDRABench(t)) })
}

// resumed checks that the node is as before, with the labels of the DRA driver.
func (b *bench) resumed() {
	b.t.Helper()
	b.pristine(false)
	v := b.see()
	assert.Equal(b.t, "true", v.labels[pluginLabel])
	assert.Equal(b.t, "true", v.labels[deployPrefix+"dra-validator"])
}
