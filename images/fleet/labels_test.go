package fleet

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/gpus"
	"github.com/driver-container/driver-container/images/matrix"
)

// gets returns what a node of Ubuntu 22.04 with some labels gets: driver and flavours, or the code of a reason.
func gets(t rapid.TB, labels map[string]string) string {
	t.Helper()
	const file = "testdata/matrix.yaml"
	m := require.Value(matrix.Parse(file, require.Value(os.ReadFile(file))(t)))(t)
	n := Node{Name: "a", Labels: labels, Arch: "amd64", Kernel: "5.15.0-122-generic", OSImage: "Ubuntu 22.04.5 LTS"}
	n.GPUs = gpusOf(labels, false)
	n.complete()
	c := &chooser{matrix: m, targets: map[string][]matrix.Target{}, known: map[string]machine{}}
	c.options.Advisor.Day = time.Date(2026, 7, 15, 0, 0, 0, 0, time.UTC)
	one := c.choose(&n)
	if one.code != "" {
		return one.code
	}
	return fmt.Sprint(one.target.Driver.Version, one.flavours)
}

// freeText are labels whose text anyone may write.
func freeText() []string {
	keys := []string{labelProduct, labelLast, labelModules, "nvidia.com/gpu.family", labelGeneration}
	for _, c := range cloudGPUs {
		if c.names {
			keys = append(keys, c.key)
		}
	}
	return slices.Concat(keys, instanceTypes, groups, cloudSystems)
}

// drawText draws a label's text: one that was seen in a cluster, or any that an API server accepts.
func drawText() *rapid.Generator[string] {
	seen := strings.Fields("nvidia-tesla g4dn g4dn.xlarge vgpu gpu true yes 1 4 8 80gb 4000 nvidia a-GPU nvidia-rubin nvidia-r100 h9000 tesla k8s V T " +
		"aws-neuron inferentia2 amd-mi300x habana-gaudi3 tpu-v5 none false R470x R999 turing any both GRID Tesla-X9 GeForce GeForce-RTX-9090")
	return rapid.OneOf(rapid.SampledFrom(seen), rapid.StringMatching(`[a-zA-Z0-9]([a-zA-Z0-9._-]{0,20}[a-zA-Z0-9])?`))
}

// says reports whether a text means something under a label: a GPU of the list, a branch, a flavour, a vGPU.
func says(key, text string) bool {
	lastBranch := func(g gpus.GPU) bool { return g.LastBranch == text }
	switch key {
	case labelProduct:
		return len(gpus.Named(text)) > 0 || strings.HasPrefix(text, driverNames) || namesVGPU(text)
	case labelLast:
		return text == "none" || slices.ContainsFunc(gpus.All(), lastBranch)
	case labelModules:
		return text == matrix.Open || text == matrix.Proprietary
	}
	return cloudName(text) != "" || slices.Contains(instanceTypes, key) && vgpuTypes.MatchString(text)
}

// TestFreeText: a text that means nothing says presence at most. A node gets the same with it as without it.
func TestFreeText(t *testing.T) {
	t.Parallel()
	present := gets(t, map[string]string{"nvidia.com/gpu.present": "true"})
	assert.Equalf(t, true, strings.HasPrefix(present, "595"), "what a node with a GPU gets: %s", present)
	rapid.Check(t, func(rt *rapid.T) {
		key := rapid.SampledFrom(freeText()).Draw(rt, "label")
		text := drawText().Draw(rt, "text")
		if says(key, text) {
			rt.Skip()
		}
		assert.Equalf(rt, present, gets(rt, map[string]string{"nvidia.com/gpu.present": "true", key: text}), "%s=%s beside a GPU", key, text)
		alone := gets(rt, map[string]string{key: text})
		if alone != present && alone != GPUUnknown {
			rt.Errorf("%s=%s alone gives %s", key, text, alone)
		}
	})
}

// TestNewerThanTheList: a name that the driver gave a GPU, and that is in no list, is that of a new GPU. In any other text it
// is not.
func TestNewerThanTheList(t *testing.T) {
	t.Parallel()
	const name = "NVIDIA-R300-SXM9-1TB"
	labels := map[string]string{"nvidia.com/gpu.present": "true", labelProduct: name}
	assert.Equalf(t, name, needOf(gpusOf(labels, false)).unknown, "the new GPU")
	labels = map[string]string{"nvidia.com/gpu.present": "true", "k8s.amazonaws.com/accelerator": strings.ToLower(name)}
	g := gpusOf(labels, false)
	assert.Equalf(t, "", needOf(g).unknown, "free text")
	assert.Equalf(t, "k8s.amazonaws.com/accelerator="+strings.ToLower(name), g.Unnamed, "what the plan warns of")
}

// TestOtherMakers: what another maker made is no GPU of NVIDIA, in each label.
func TestOtherMakers(t *testing.T) {
	t.Parallel()
	for _, c := range cloudGPUs {
		for text := range strings.FieldsSeq("aws-neuron aws-inferentia2 trainium amd amd-mi300x radeon-pro-v520 instinct-mi355x intel-gaudi3 " +
			"habana-gaudi tpu-v5-lite-podslice intel-flex qualcomm-ai100 none false cpu") {
			got := gpusOf(map[string]string{c.key: text}, false)
			assert.Samef(t, GPUs{}, got, "%s=%s", c.key, text)
		}
	}
	for _, g := range gpus.All() {
		for _, name := range g.Names() {
			if label := strings.ReplaceAll(name, " ", "-"); otherMakers.MatchString(label) {
				t.Errorf("%s is taken for a GPU of another maker", label)
			}
		}
	}
}

// TestVGPUs: names and machine types of vGPUs are those alone. No GPU of the list has such a name.
func TestVGPUs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"NVIDIA-A10-24Q NVIDIA-L40S-48Q-SHARED NVIDIA-A100-1-5CME NVIDIA-A100-4-20C NVIDIA-A16-2B GRID-T4-16C GRID-P40-8Q GRID-K140Q": true,
		"Standard_NV6ads_A10_v5 Standard_NV12ads_A10_v5 Standard_NV36adms_A10_v5 standard_nv72ads_a10_v5 Standard_NC8ads_A10_v4 " +
			"Standard_NC128ds_xl_RTXPRO6000BSE_v6 Standard_NC24lds_xl_RTXPRO6000BSE_v6 g6f.large gr6f.4xlarge g4-standard-6 g4-standard-24 " +
			"ecs.vgn6i-m4.xlarge ecs.sgn7i-vws-m2.xlarge": true,
		"NVIDIA-A10 NVIDIA-L40S NVIDIA-L40S-SHARED NVIDIA-A100-SXM4-40GB-MIG-1g.5gb Tesla-T4 NVIDIA-GRID-K1 Standard_NC24ads_A100_v4 " +
			"Standard_NC4as_T4_v3 Standard_NV12s_v3 Standard_NC40ads_H100_v5 g6.xlarge gr6.4xlarge g6e.xlarge g4dn.xlarge g5.xlarge " +
			"g4-standard-48 g2-standard-24 ecs.gn6i-c4g1.xlarge": false,
	} {
		for name := range strings.FieldsSeq(text) {
			for _, key := range []string{labelProduct, instanceTypes[0], instanceTypes[1]} {
				isType := vgpuTypes.MatchString(name)
				if (key == labelProduct) == isType {
					continue // of the other kind
				}
				assert.Equalf(t, want, gpusOf(map[string]string{key: name}, true).VGPU, "%s=%s", key, name)
			}
		}
	}
	for _, g := range gpus.All() {
		for _, name := range g.Names() {
			label := strings.ReplaceAll(name, " ", "-")
			if namesVGPU(label) && !strings.HasPrefix(name, "GRID ") {
				t.Errorf("%s is taken for a vGPU", label)
			}
		}
	}
}
