package fleet_test

import (
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/fleet"
)

// managedNode is a node with labels (key=value), a system and the version of its kubelet.
func managedNode(image, kernel, kubelet, labels string) string {
	all := map[string]string{"kubernetes.io/arch": "amd64"}
	for label := range strings.FieldsSeq(labels) {
		key, value, _ := strings.Cut(label, "=")
		all[key] = value
	}
	return strings.Replace(item("a", all, kernel, image), `"nodeInfo": {`, `"nodeInfo": {"kubeletVersion": "`+kubelet+`", `, 1)
}

// TestManagedDrivers: a node whose platform brings the driver gets none of ours, with the sign and what to switch off, and the chart
// keeps off it; with the option it gets one. A node of the same platform without the sign is served, with a hint.
func TestManagedDrivers(t *testing.T) {
	t.Parallel()
	const (
		amazon, amazonKernel = "Amazon Linux 2023.9.20251014", "6.1.155-176.282.amzn2023.x86_64"
		ubuntuKernel         = "5.15.0-122-generic"
		present              = "nvidia.com/gpu.present=true eks.amazonaws.com/nodegroup=gpu"
		discovered           = nfd + "pci-10de.present=true eks.amazonaws.com/nodegroup=gpu"
		google               = "cloud.google.com/gke-accelerator=nvidia-l4 cloud.google.com/gke-nodepool=a"
		azure                = "accelerator=nvidia kubernetes.azure.com/accelerator=nvidia kubernetes.azure.com/agentpool=a"
	)
	for name, c := range map[string]struct {
		node string
		want string // reason
		why  string // part of the reason, or of the hint
	}{
		"nodeadm of EKS":         {managedNode(amazon, amazonKernel, "v1.35.2-eks-c39b1d0", present), fleet.ManagedDriver, "AL2023_x86_64_STANDARD"},
		"EKS before nodeadm":     {managedNode(amazon, amazonKernel, "v1.34.1-eks-c39b1d0", present), "", "AL2023_x86_64_NVIDIA"},
		"EKS, discovered":        {managedNode(amazon, amazonKernel, "v1.35.2-eks-c39b1d0", discovered), "", "AL2023_x86_64_NVIDIA"},
		"Amazon Linux elsewhere": {managedNode(amazon, amazonKernel, "v1.35.2", "nvidia.com/gpu.present=true agentpool=a"), "", ""},
		"GKE, default":           {managedNode(ubuntu, ubuntuKernel, "v1.34.1-gke.1", google+" cloud.google.com/gke-gpu-driver-version=default"), fleet.ManagedDriver, "gpu-driver-version=disabled"},
		"GKE, disabled":          {managedNode(ubuntu, ubuntuKernel, "v1.34.1-gke.1", google), "", ""},
		"GKE, COS": {
			managedNode("Container-Optimized OS from Google", "6.6.93+", "v1.34.1-gke.1", google+" cloud.google.com/gke-gpu-driver-version=latest"), fleet.OwnWay, "",
		},
		"AKS, managed": {managedNode(ubuntu, ubuntuKernel, "v1.34.1", azure+" kubernetes.azure.com/dcgm-exporter=enabled"), fleet.ManagedDriver, "--gpu-driver none"},
		"AKS, its image": {
			managedNode(ubuntu, ubuntuKernel, "v1.34.1", azure+" kubernetes.azure.com/node-image-version=AKSUbuntu-1804gen2gpucontainerd-202501.05.0"), fleet.ManagedDriver,
			"AKSUbuntu-1804gen2gpucontainerd",
		},
		"AKS": {
			managedNode(ubuntu, ubuntuKernel, "v1.34.1", azure+" kubernetes.azure.com/node-image-version=AKSUbuntu-2204gen2containerd-202510.19.1"), "", "--gpu-driver none",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := parse(t, []string{c.node})
			for _, managed := range []bool{false, true} {
				p := require.Value(fleet.Recommend(rows(t), all, fleet.Options{Advisor: advisor, Managed: managed}))(t)
				checkPlan(t, all, p)
				served := c.want == "" || managed && c.want == fleet.ManagedDriver
				assert.Equalf(t, served, len(p.Pools) == 1, "a pool, with managed %v: %v", managed, p.Without)
				if served {
					assert.Equalf(t, c.want == "" && c.why != "" && !managed, len(p.Hints) == 1, "a hint: %v", p.Hints)
				}
				for _, w := range p.Without {
					assert.Equalf(t, c.want, w.Code, "the reason")
					assert.Containsf(t, w.Reason, c.why, "the reason")
				}
				for _, hint := range p.Hints {
					assert.Containsf(t, hint.Text, c.why, "the hint")
				}
				assert.NoError(t, p.CheckServed(nil))
			}
		})
	}
}
