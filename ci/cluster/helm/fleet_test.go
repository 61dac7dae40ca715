package helm

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/driver-container/driver-container/ci/cluster/control"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/images/fleet"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/releases"
)

// TestFleet renders the values that `driver-build fleet` writes for recorded node lists, and evaluates the
// selectors of the DaemonSets against the labels of these lists, as the scheduler does: each node is chosen
// by the pool that it was assigned to and by no other, and a node without a driver by none. The pods tolerate
// the taints of their nodes.
func TestFleet(t *testing.T) {
	control.Gate(t)
	const recorded = repository + "/images/fleet/testdata/"
	for _, values := range glob(t, recorded+"golden/*.yaml") {
		text := testfile.Read(t, values)
		if text == "" { // no node of that list gets a driver
			continue
		}
		t.Run(base(values), func(t *testing.T) {
			t.Parallel()
			var plan struct {
				Pools []struct {
					Name  string   `json:"name"`
					Tag   string   `json:"tag"`
					Nodes []string `json:"nodes"`
				} `json:"pools"`
			}
			require.NoError(t, json.Unmarshal([]byte(testfile.Read(t, strings.TrimSuffix(values, ".yaml")+".json")), &plan))
			var recordedNodes corev1.NodeList
			list := strings.TrimSuffix(base(values), "-precompiled")
			require.NoError(t, json.Unmarshal([]byte(testfile.Read(t, filepath.Join(recorded, list+".json"))), &recordedNodes))
			sets := map[string]appsv1.DaemonSet{}
			for _, set := range daemonSets(t, require.Value(template(t, "--values", values))(t)) {
				sets[set.Spec.Template.Labels["driver-container/pool"]] = set
			}
			assert.Equalf(t, len(plan.Pools), len(sets), "DaemonSets")
			assigned := map[string]string{}
			for _, pool := range plan.Pools {
				set, ok := sets[pool.Name]
				if !ok {
					t.Fatalf("the pool %s has no DaemonSet", pool.Name)
				}
				assert.Equalf(t, "registry.example.com/gpu/driver:"+pool.Tag, set.Spec.Template.Spec.Containers[0].Image, "the image of %s", pool.Name)
				for _, node := range pool.Nodes {
					assigned[node] = pool.Name
				}
			}
			for _, node := range recordedNodes.Items {
				var chosen []string
				for name, set := range sets {
					if !chooses(t, &set.Spec.Template.Spec, node.Labels) {
						continue
					}
					chosen = append(chosen, name)
					for _, taint := range node.Spec.Taints {
						if !strings.Contains(taint.Key, "kubernetes.io/") && !slices.ContainsFunc(set.Spec.Template.Spec.Tolerations, func(o corev1.Toleration) bool { return tolerates(o, taint) }) {
							t.Errorf("the pods of %s do not tolerate %s of %s", name, taint.Key, node.Name)
						}
					}
				}
				assert.Equalf(t, assigned[node.Name], strings.Join(chosen, " "), "the pools that choose %s", node.Name)
			}
		})
	}
}

// chooses evaluates the node selector and the required node affinity of a pod.
func chooses(t *testing.T, pod *corev1.PodSpec, node map[string]string) bool {
	t.Helper()
	if !labels.SelectorFromSet(pod.NodeSelector).Matches(labels.Set(node)) {
		return false
	}
	if pod.Affinity == nil || pod.Affinity.NodeAffinity == nil {
		return true
	}
	for _, term := range pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		all := labels.NewSelector()
		for _, e := range term.MatchExpressions {
			operator := map[corev1.NodeSelectorOperator]selection.Operator{
				corev1.NodeSelectorOpIn: selection.In, corev1.NodeSelectorOpNotIn: selection.NotIn, corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
			}[e.Operator]
			all = all.Add(*require.Value(labels.NewRequirement(e.Key, operator, e.Values))(t))
		}
		if all.Matches(labels.Set(node)) {
			return true
		}
	}
	return false
}

// tolerates is the rule of Kubernetes.
func tolerates(o corev1.Toleration, taint corev1.Taint) bool {
	return (o.Key == "" || o.Key == taint.Key) && (o.Effect == "" || o.Effect == taint.Effect) && (o.Operator == corev1.TolerationOpExists || o.Value == taint.Value)
}

// TestFleetExample applies the example of the job that proposes pools. A real API server accepts the recorded
// nodes; what it answers to the job's account gives the pools that the recorded list gives, and a dry run of
// the chart with them. The account may do nothing else.
func TestFleetExample(t *testing.T) {
	p := control.Start(t, control.Config{})
	namespace(t, p, "nvidia-driver")
	p.Kubectl("apply", "-f", repository+"/deploy/examples/fleet-cronjob.yaml")
	job := p.ServiceAccount("nvidia-driver", "driver-fleet")
	const recorded = repository + "/images/fleet/testdata/"
	apply(t, p, testfile.Read(t, recorded+"kubeadm.json"))
	for _, refused := range [][]string{
		{"get", "secrets", "-A"}, {"get", "pods", "-A"}, {"get", "configmaps", "-n", "nvidia-driver"}, {"label", "node", "deb-t4-1", "a=b"}, {"delete", "node", "deb-t4-1"},
	} {
		assert.Errorf(t, assert.Err(job.TryKubectl(refused...)), "the job may %v", refused)
	}
	m := require.Value(matrix.Parse("matrix.yaml", []byte(testfile.Read(t, recorded+"matrix.yaml"))))(t)
	all := require.Value(fleet.ReadNodes(strings.NewReader(job.Kubectl("get", "nodes", "-o", "json"))))(t)
	plan := require.Value(fleet.Recommend(m, all, fleet.Options{Advisor: releases.Advisor{Day: time.Date(2026, 7, 15, 0, 0, 0, 0, time.UTC)}}))(t)
	var values strings.Builder
	require.NoError(t, plan.WriteValues(&values, "registry.example.com/gpu/driver"))
	assert.Equalf(t, testfile.Read(t, recorded+"golden/kubeadm.yaml"), values.String(), "the values")
	file := filepath.Join(t.TempDir(), "pools.yaml")
	require.NoError(t, os.WriteFile(file, []byte(values.String()), 0o600))
	p.Helm("install", "gpu", chart, "--namespace", "nvidia-driver", "--dry-run=server", "--values", file)
}
