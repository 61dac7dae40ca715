package fleet

import (
	"maps"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/osrelease"
	"github.com/driver-container/driver-container/images/matrix"
)

// managedLabel is a label with which a platform says that it brings the driver. The chart's pods
// stay off such nodes.
type managedLabel struct {
	value string // "": any
	who   string // brings it, and how to switch that off
}

// managedLabels has the label that GKE reads to install a driver (its own installer for other nodes
// asks that it is missing: GoogleCloudPlatform/container-engine-accelerators;
// docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/google-gke.html has what switches it
// off), and that of AKS' managed GPU node pools (Azure/AgentBaker, MicrosoftDocs/azure-aks-docs:
// articles/aks/aks-managed-gpu-nodes.md).
var managedLabels = map[string]managedLabel{
	"cloud.google.com/gke-gpu-driver-version": {
		who: "GKE installs it: to use ours, create the node pool with " +
			"--accelerator type=...,gpu-driver-version=disabled and --node-labels gke-no-default-nvidia-gpu-device-plugin=true",
	},
	"kubernetes.azure.com/dcgm-exporter": {
		value: "enabled",
		who: "AKS installs it: to use ours, create the node pool without " +
			"--enable-managed-gpu-experience and with --gpu-driver none",
	},
}

// labelPresent says that a node has a GPU. An administrator sets it, NVIDIA's operator, or nodeadm
// of EKS.
const labelPresent = "nvidia.com/gpu.present"

// eksNodes are labels of nodes of EKS, where nodeadm sets labelPresent: there the label does not
// mean that a driver is wanted.
var eksNodes = []string{"eks.amazonaws.com/nodegroup", "karpenter.k8s.aws/ec2nodeclass"}

// labelImage is the name of a node's image on AKS: "AKSUbuntu-1804gen2gpucontainerd-202501.05.0"
// has a driver.
const labelImage = "kubernetes.azure.com/node-image-version"

// onEKS reports whether a node is one of EKS, as its labels say.
func onEKS(labels map[string]string) bool {
	return slices.ContainsFunc(eksNodes, func(key string) bool { return labels[key] != "" })
}

// managedBy returns the first label that says that the platform brings the driver; "" if none does.
func managedBy(labels map[string]string) string {
	for _, key := range slices.Sorted(maps.Keys(managedLabels)) {
		want := managedLabels[key].value
		if labels[key] != "" && (want == "" || labels[key] == want) {
			return key
		}
	}
	return ""
}

// refuseManaged refuses a node whose platform brings the driver. Where the system itself has a way
// of its own, that is the reason.
func (m *machine) refuseManaged() {
	if osrelease.OwnWay(m.ID) != "" && m.host == "" {
		return
	}
	key := managedBy(m.Labels)
	image := m.Labels[labelImage]
	switch {
	case key != "":
		m.refuse(ManagedDriver, "its platform brings the driver (%s=%s): %s", key, m.Labels[key], managedLabels[key].who)
	case strings.Contains(image, "gpucontainerd"):
		m.refuse(ManagedDriver, "its image has the driver (%s=%s): to use ours, create the node pool with --gpu-driver none",
			labelImage, image)
	case m.labelledByNodeadm():
		m.refuse(ManagedDriver, "nodeadm of EKS has set %s=true, and Amazon's images for GPUs have the driver: "+
			"to use ours, take an image without it (AL2023_x86_64_STANDARD) and let node feature discovery label the node",
			labelPresent)
	}
}

// labelledByNodeadm reports whether nothing but nodeadm says that a node has a GPU: it does so from
// Kubernetes 1.35 on (awslabs/amazon-eks-ami, nodeadm/internal/kubelet), with or without a driver
// in the image.
func (m *machine) labelledByNodeadm() bool {
	version, _, eks := strings.Cut(strings.TrimPrefix(m.Kubelet, "v"), "-eks-")
	return eks && m.isAmazons() && m.Labels[labelPresent] == "true" && !discovered(m.Labels) &&
		matrix.CompareVersions(version, "1.35") >= 0
}

// isAmazons reports whether the node's image is one of Amazon's, of which those for GPUs have a
// driver.
func (m *machine) isAmazons() bool { return strings.HasPrefix(m.OSImage, "Amazon Linux ") }

// maybeManaged says that a node may have a driver of its platform, though no label tells it; "" if
// that is not likely.
func (c *chooser) maybeManaged(m *machine) string {
	switch {
	case c.options.Managed:
		return ""
	case strings.Contains(m.Kubelet, "-eks-") && m.isAmazons():
		return "Amazon's images for GPUs (AL2023_x86_64_NVIDIA, AL2_x86_64_GPU) have a driver: " +
			"take one without it, or label the nodes " + labelDeploy + "=" + preInstalled
	case m.Labels[labelImage] != "":
		return "AKS installs a driver on nodes with a GPU: create their node pools with --gpu-driver none, " +
			"or label them " + labelDeploy + "=" + preInstalled
	}
	return ""
}
