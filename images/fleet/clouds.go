package fleet

import (
	"strings"
)

// cloudGPU is a label with which a cloud says that a node has a GPU.
type cloudGPU struct {
	key   string
	value string // of nodes with a GPU of NVIDIA; "": any
	maker string // label with the maker of this GPU: not all are NVIDIA's
	names bool   // its value names the GPU
}

// cloudGPUs has those of Google (docs.cloud.google.com/kubernetes-engine/docs/how-to/gpus), Karpenter on AWS
// (karpenter.sh/docs/reference/instance-types), EKS Auto Mode
// (docs.aws.amazon.com/eks/latest/userguide/create-node-pool.html), AKS and Karpenter there
// (learn.microsoft.com/azure/aks/node-auto-provisioning-node-pools), and what the cluster autoscaler wants of
// AWS's node groups.
var cloudGPUs = []cloudGPU{
	{key: "cloud.google.com/gke-accelerator", names: true},
	{key: "karpenter.k8s.aws/instance-gpu-name", maker: "karpenter.k8s.aws/instance-gpu-manufacturer", names: true},
	{key: "karpenter.k8s.aws/instance-gpu-manufacturer", value: "nvidia"},
	{key: "eks.amazonaws.com/instance-gpu-name", maker: "eks.amazonaws.com/instance-gpu-manufacturer", names: true},
	{key: "eks.amazonaws.com/instance-gpu-manufacturer", value: "nvidia"},
	{key: "karpenter.azure.com/sku-gpu-name", maker: "karpenter.azure.com/sku-gpu-manufacturer", names: true},
	{key: "karpenter.azure.com/sku-gpu-manufacturer", value: "nvidia"},
	{key: "k8s.amazonaws.com/accelerator", names: true},
	{key: "kubernetes.azure.com/accelerator", value: "nvidia"},
	{key: "accelerator", value: "nvidia"},
}

// in reports whether labels say that the node has a GPU of NVIDIA.
func (c cloudGPU) in(labels map[string]string) bool {
	value, ok := labels[c.key]
	maker, made := labels[c.maker]
	return ok && value != "" && (c.value == "" || c.value == value) && (!made || maker == "nvidia")
}

// Labels by which a cloud's machines can be told apart: those with the name of a group that is made from one template, those
// with the system, and those with the type.
var (
	groups = []string{
		"eks.amazonaws.com/nodegroup", "cloud.google.com/gke-nodepool", "kubernetes.azure.com/agentpool", "agentpool", "karpenter.sh/nodepool",
	}
	cloudSystems  = []string{"cloud.google.com/gke-os-distribution", "kubernetes.azure.com/os-sku", "node.openshift.io/os_id"}
	instanceTypes = []string{"node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"}
)

// cloudWords are names of clouds that the GPU's own name does not contain.
var cloudWords = map[string]string{
	"h100-mega-80gb": "H100 80GB", "h200-141gb": "H200",
	"rtx-pro-server-4500": "RTX PRO 4500 Blackwell Server Edition", "rtx-pro-server-6000": "RTX PRO 6000 Blackwell Server Edition",
	"rtxpro6000bse": "RTX PRO 6000 Blackwell Server Edition",
}

// cloudName returns the words of a GPU's own name from the value of a label: "p100" of "nvidia-tesla-p100".
func cloudName(value string) string {
	value = strings.TrimPrefix(strings.TrimPrefix(strings.ToLower(value), "nvidia-"), "tesla-")
	if name, ok := cloudWords[value]; ok {
		return name
	}
	return strings.ToUpper(value)
}
