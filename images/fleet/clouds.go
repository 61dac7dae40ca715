package fleet

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/images/gpus"
)

// cloudGPU is a label with which a cloud says that a node has a GPU.
type cloudGPU struct {
	key   string
	value string // of nodes with a GPU of NVIDIA; "": any
	maker string // label with the maker of this GPU: not all are NVIDIA's
	names bool   // its value names the GPU, or anything: some are free text
}

// cloudGPUs has those of Google (docs.cloud.google.com/kubernetes-engine/docs/how-to/gpus),
// Karpenter on AWS (karpenter.sh/docs/reference/instance-types), EKS Auto Mode
// (docs.aws.amazon.com/eks/latest/userguide/create-node-pool.html), AKS and Karpenter there
// (learn.microsoft.com/azure/aks/node-auto-provisioning-node-pools), DigitalOcean
// (docs.digitalocean.com/products/kubernetes/details/supported-gpus), and what the cluster
// autoscaler wants of AWS's node groups.
var cloudGPUs = []cloudGPU{
	{key: "cloud.google.com/gke-accelerator", names: true},
	{
		key:   "karpenter.k8s.aws/instance-gpu-name",
		maker: "karpenter.k8s.aws/instance-gpu-manufacturer",
		names: true,
	},
	{key: "karpenter.k8s.aws/instance-gpu-manufacturer", value: "nvidia"},
	{
		key:   "eks.amazonaws.com/instance-gpu-name",
		maker: "eks.amazonaws.com/instance-gpu-manufacturer",
		names: true,
	},
	{key: "eks.amazonaws.com/instance-gpu-manufacturer", value: "nvidia"},
	{
		key:   "karpenter.azure.com/sku-gpu-name",
		maker: "karpenter.azure.com/sku-gpu-manufacturer",
		names: true,
	},
	{key: "karpenter.azure.com/sku-gpu-manufacturer", value: "nvidia"},
	{key: "doks.digitalocean.com/gpu-model", maker: "doks.digitalocean.com/gpu-brand", names: true},
	{key: "doks.digitalocean.com/gpu-brand", value: "nvidia"},
	{key: "k8s.amazonaws.com/accelerator", names: true},
	{key: "kubernetes.azure.com/accelerator", value: "nvidia"},
	{key: "accelerator", value: "nvidia"},
}

// otherMakers matches names of accelerators that are no GPUs of NVIDIA, and words for none.
var otherMakers = regexp.MustCompile(
	`(?i)(^|[^a-z])(amd|radeon|instinct|mi[0-9]{2,3}[a-z]?|intel|habana|gaudi|xpu|neuron|neuroncore|` +
		`inferentia|inf|trainium|trn|tpu|fpga|xilinx|qualcomm|ascend|npu|mlu|dcu|cpu|none|false)([^a-z]|$)`,
)

// in reports whether labels say that the node has a GPU of NVIDIA.
func (c cloudGPU) in(labels map[string]string) bool {
	value := labels[c.key]
	maker, made := labels[c.maker]
	switch {
	case value == "" || made && maker != "nvidia":
		return false
	case c.names:
		return !otherMakers.MatchString(value)
	}
	return value == c.value
}

// vgpuTypes matches machine types whose GPUs are vGPUs, also where they are whole ones. On Azure
// those are the sizes for which AKS takes Microsoft's guest driver, because another one does not
// install (Azure/AgentBaker, gpu_components.go); G6f of AWS
// (docs.aws.amazon.com/AWSEC2/latest/UserGuide/install-nvidia-driver.html); fractions of a GPU in
// Google's G4 (docs.cloud.google.com/compute/docs/gpus); vgn and sgn of Alibaba
// (help.aliyun.com/zh/egs/instance-naming-conventions).
var vgpuTypes = regexp.MustCompile(
	`(?i)^(standard_n[cv][0-9]+[a-z]*_a10_v[0-9]+|standard_nc[0-9]+[a-z]+_xl_rtxpro6000bse_v[0-9]+)(_promo)?$|` +
		`^gr?6f\.|^g4-standard-(6|12|24)$|^ecs\.[sv]gn[0-9]`,
)

// labelSKU is Azure's name of a node's system. Those that are made of Azure Linux say no more than
// that of themselves.
const labelSKU = "kubernetes.azure.com/os-sku"

// Labels by which a cloud's machines can be told apart: those with the name of a group that is made
// from one template, those with the system, and those with the type.
var (
	groups = []string{
		"eks.amazonaws.com/nodegroup", "cloud.google.com/gke-nodepool", "kubernetes.azure.com/agentpool", "agentpool", "karpenter.sh/nodepool",
	}
	cloudSystems = []string{
		"cloud.google.com/gke-os-distribution",
		labelSKU,
		"node.openshift.io/os_id",
	}
	instanceTypes = []string{"node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"}
)

// cloudWords are names of clouds that the GPU's own name does not contain.
var cloudWords = map[string]string{
	"h100-mega-80gb": "H100 80GB", "h200-141gb": "H200",
	"rtx-pro-server-4500": "RTX PRO 4500 Blackwell Server Edition", "rtx-pro-server-6000": "RTX PRO 6000 Blackwell Server Edition",
	"rtxpro6000bse": "RTX PRO 6000 Blackwell Server Edition",
}

// virtualMarks are labels and taints of nodes that are no machines: a virtual kubelet's, whose pods
// run elsewhere, and those that kwok simulates. No DaemonSet has pods there.
var virtualMarks = [][2]string{
	{"type", "virtual-kubelet"},
	{"liqo.io/type", "virtual-node"},
	{"type", "kwok"},
	{"kwok.x-k8s.io/node", "fake"},
}

// virtual returns the label or taint by which a node is no machine; "" if it is one.
func (n *Node) virtual() string {
	for _, mark := range virtualMarks {
		isMark := func(t Taint) bool { return t.Key == mark[0] && t.Value == mark[1] }
		if n.Labels[mark[0]] == mark[1] || slices.ContainsFunc(n.Taints, isMark) {
			return mark[0] + "=" + mark[1]
		}
	}
	return ""
}

// cloudName returns the words of a GPU's own name from the value of a label: "P100" of
// "nvidia-tesla-p100". It is "" for a value that names no GPU of the list: "g4dn", "vgpu", or one
// that is newer than the list.
func cloudName(value string) string {
	value = strings.TrimPrefix(strings.TrimPrefix(strings.ToLower(value), "nvidia-"), "tesla-")
	name := cmp.Or(cloudWords[value], strings.ToUpper(value))
	if len(gpus.Named(name)) == 0 {
		return ""
	}
	return name
}
