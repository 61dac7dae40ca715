package fleet_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/fleet"
	"github.com/driver-container/driver-container/images/matrix"
)

// shape is a node of Ubuntu 22.04 on amd64, except for what a test sets.
type shape struct {
	labels        map[string]string
	image, kernel string
}

// decide makes the plan of a cluster with these nodes, which are called a, b and so on.
func decide(t *testing.T, shapes ...shape) *fleet.Recommendation {
	t.Helper()
	return decideWith(t, rows(t), fleet.Options{Advisor: advisor}, shapes...)
}

func decideWith(t *testing.T, m *matrix.Matrix, o fleet.Options, shapes ...shape) *fleet.Recommendation {
	t.Helper()
	var items []string
	for i, s := range shapes {
		labels := map[string]string{"kubernetes.io/arch": "amd64", "agentpool": "a"}
		maps.Copy(labels, s.labels)
		if s.image == "" {
			s.image, s.kernel = "Ubuntu 22.04.5 LTS", "5.15.0-122-generic"
		}
		items = append(items, item(string(rune('a'+i)), labels, s.kernel, s.image))
	}
	all := parse(t, items)
	p := require.Value(fleet.Recommend(m, all, o))(t)
	checkPlan(t, all, p)
	return p
}

// place returns the driver of a plan's only pool, and the code of its only reason.
func place(p *fleet.Recommendation) string {
	var words []string
	for _, pool := range p.Pools {
		words = append(words, pool.Driver)
	}
	for _, w := range p.Without {
		words = append(words, w.Code)
	}
	return strings.Join(words, " ")
}

// TestNodesOfTheirOwn: what is no node for an ordinary driver gets none, with a reason of its own.
func TestNodesOfTheirOwn(t *testing.T) {
	t.Parallel()
	const gpu, workload, product = "nvidia.com/gpu.present", "nvidia.com/gpu.workload.config", "nvidia.com/gpu.product"
	with := func(key, value string) map[string]string { return map[string]string{gpu: "true", key: value} }
	plain := with(gpu, "true")
	rhel := map[string]string{
		gpu: "true", fleet.LabelOSID: "rhel", fleet.LabelOSVersion: "9.6", fleet.LabelOSMajor: "9",
	}
	for name, c := range map[string]struct {
		labels        map[string]string
		image, kernel string // "": Ubuntu 22.04
		want, why     string
	}{
		"ordinary":            {plain, "", "", "595.91.07", ""},
		"for containers":      {with(workload, "container"), "", "", "595.91.07", ""},
		"passed through":      {with(workload, "vm-passthrough"), "", "", fleet.ForMachines, "vm-passthrough"},
		"a host of vGPUs":     {with(workload, "vm-vgpu"), "", "", fleet.ForMachines, "vm-vgpu"},
		"a vGPU":              {with("nvidia.com/vgpu.present", "true"), "", "", fleet.VGPUGuest, "--driver"},
		"a vGPU, by its name": {with(product, "NVIDIA-A10-24Q"), "", "", fleet.VGPUGuest, "--driver"},
		"Jetson":              {plain, "Ubuntu 22.04.5 LTS", "5.15.148-tegra", fleet.Jetson, "Jetson"},
		"OpenShift 4.18": {plain, "Red Hat Enterprise Linux CoreOS 418.94.202503102036-0", "5.14.0-427.60.1.el9_4.x86_64",
			fleet.OwnWay, "rhcos4.18"},
		"OpenShift 4.19": {rhel, "Red Hat Enterprise Linux CoreOS 9.6.20250530-0 (Plow)", "5.14.0-570.21.1.el9_6.x86_64",
			fleet.OwnWay, "rhcos9.6"},
		"Jetson, real-time":    {plain, "Ubuntu 22.04.5 LTS", "5.15.136-rt-tegra", fleet.Jetson, "Jetson"},
		"Jetson, of Canonical": {plain, "Ubuntu 22.04.5 LTS", "5.15.0-1027-nvidia-tegra", fleet.Jetson, "Jetson"},
		"Jetson, of Yocto":     {plain, "Ubuntu 18.04.4 LTS", "4.9.140-l4t-r32.3.1+g47e7e1cb0b49", fleet.Jetson, "Jetson"},
		"IGX with another GPU": {with("feature.node.kubernetes.io/pci-0302_10de_2231.present", "true"), "Ubuntu 22.04.5 LTS", "5.15.0-1012-nvidia-tegra-igx", "595.91.07", ""},
		"WSL":                  {plain, "Ubuntu 22.04.5 LTS", "6.6.87.2-microsoft-standard-WSL2", fleet.OwnWay, "the driver of Windows"},
		"real-time":            {plain, "Ubuntu 22.04.5 LTS", "5.15.0-1032-realtime", fleet.KernelDrivers, "PREEMPT_RT"},
		"real-time of Debian":  {plain, "Debian GNU/Linux 12 (bookworm)", "6.1.0-38-rt-amd64", fleet.KernelDrivers, "PREEMPT_RT"},
		"a part of an A10":     {with("node.kubernetes.io/instance-type", "Standard_NV6ads_A10_v5"), "", "", fleet.VGPUGuest, "--driver"},
		"a whole vGPU, shared": {with(product, "NVIDIA-L40S-48Q-SHARED"), "", "", fleet.VGPUGuest, "--driver"},
		"a GeForce of an A":    {with(product, "GeForce-GTX-960A"), "", "", "580.173.02", ""},
		"Harvester":            {plain, "Harvester v1.4.1", "5.14.21-150500.55.83-default", fleet.OwnWay, "nvidia-driver-toolkit"},
		"Harvester, labelled": {map[string]string{gpu: "true", fleet.LabelOSID: "sle-micro-rancher", fleet.LabelOSVersion: "5.5"}, "Harvester v1.4.1",
			"5.14.21-150500.55.83-default", fleet.OwnWay, "nvidia-driver-toolkit"},
		"Elemental":             {map[string]string{gpu: "true", fleet.LabelOSID: "sle-micro-rancher", fleet.LabelOSVersion: "5.5"}, "", "", fleet.OwnWay, "transactional-update"},
		"EKS Auto Mode":         {plain, "Bottlerocket (EKS Auto, Nvidia) 2026.4.23 (aws-k8s-1.34-nvidia)", "6.12.79", fleet.OwnWay, "EKS Auto Mode brings the driver"},
		"Azure Container Linux": {with("kubernetes.azure.com/os-sku", "AzureContainerLinux"), "Microsoft Azure Linux 3.0", "6.6.96.1-1.azl3", fleet.OwnWay, "system extension"},
		"OS Guard":              {with("kubernetes.azure.com/os-sku", "AzureLinuxOSGuard"), "Microsoft Azure Linux 3.0", "6.6.96.1-1.azl3", fleet.OwnWay, "OS Guard"},
		"virtual":               {with("type", "virtual-kubelet"), "", "", fleet.NoGPU, "its pods run elsewhere"},
		"simulated":             {with("type", "kwok"), "fake", "fake", fleet.NoGPU, "type=kwok"},
		"CBL-Mariner":           {plain, "CBL-Mariner/Linux", "5.15.186.1-1.cm2", fleet.SystemUnknown, "azurelinux3.0"},
		"Alibaba Cloud Linux": {plain, "Alibaba Cloud Linux 3.2104 U12 (OpenAnolis Edition)", "5.10.134-19.1.al8.x86_64",
			fleet.SystemUnknown, "rocky8 is near: add aliases: [alinux3]"},
		"TencentOS":      {plain, "TencentOS Server 3.1 (Final)", "5.4.119-19.0009.54", fleet.SystemUnknown, "[tencentos3.1]"},
		"Photon":         {plain, "VMware Photon OS/Linux", "6.1.115-1.ph5", fleet.SystemUnknown, "debian12 is near"},
		"openEuler":      {plain, "openEuler 22.03 (LTS-SP2)", "5.10.0-153.oe2203sp2.x86_64", fleet.SystemUnknown, "[openEuler22.03]"},
		"Kylin":          {plain, "Kylin Linux Advanced Server V10 (Lance)", "4.19.90-52.ky10.x86_64", fleet.SystemUnknown, "[kylinV10]"},
		"Ubuntu 25.10":   {plain, "Ubuntu 25.10", "6.17.0-8-generic", fleet.SystemUnknown, "only LTS releases have images"},
		"another system": {plain, "Haiku R1", "1.0", fleet.SystemUnknown, "driver-build list"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := decide(t, shape{c.labels, c.image, c.kernel})
			assert.Equalf(t, c.want, place(p), "driver or reason")
			for _, w := range p.Without {
				assert.Containsf(t, w.Reason, c.why, "the reason")
			}
		})
	}
	beside := decide(t, shape{labels: plain}, shape{labels: with(workload, "vm-passthrough")})
	assert.Equalf(t, "595.91.07 "+fleet.ForMachines, place(beside), "a node beside one whose GPUs are passed through")
}

// TestVGPU: a guest with a vGPU gets the driver for guests that was named, and no other one.
func TestVGPU(t *testing.T) {
	t.Parallel()
	m := rows(t)
	guest := m.Drivers[slices.IndexFunc(m.Drivers, func(d matrix.Driver) bool { return d.Version == "580.173.02" })]
	guest.Version, guest.VGPU = "580.105.08", "nvidia"
	m.Drivers = append(m.Drivers, guest)
	vgpu := shape{labels: map[string]string{"nvidia.com/gpu.present": "true", "nvidia.com/vgpu.present": "true"}}
	for want, drivers := range map[string][]string{"580.105.08": {"580.105.08", "595.91.07"}, fleet.VGPUGuest: {"595.91.07"}} {
		assert.Equalf(t, want, place(decideWith(t, m, fleet.Options{Advisor: advisor, Drivers: drivers}, vgpu)), "of %v", drivers)
	}
}

// TestCloudNames has the values of clouds' labels that name a GPU, from their documents: the driver is one
// that drives it.
func TestCloudNames(t *testing.T) {
	t.Parallel()
	const (
		google, karpenter, auto = "cloud.google.com/gke-accelerator", "karpenter.k8s.aws/instance-gpu-name", "eks.amazonaws.com/instance-gpu-name"
		azure, autoscaler       = "karpenter.azure.com/sku-gpu-name", "k8s.amazonaws.com/accelerator"
	)
	for _, c := range []struct{ driver, key, values string }{
		{"470.256.02", google, "nvidia-tesla-k80"},
		{"470.256.02", autoscaler, "nvidia-tesla-k80"},
		{"580.173.02", google, "nvidia-tesla-p4 nvidia-tesla-p100 nvidia-tesla-v100"},
		{"580.173.02", karpenter, "v100 m60"},
		{"580.173.02", auto, "v100"},
		{"580.173.02", azure, "V100 P100 M60"},
		{"580.173.02", autoscaler, "nvidia-tesla-v100 v100"},
		{"595.91.07", google, "nvidia-tesla-t4 nvidia-tesla-a100 nvidia-a100-80gb nvidia-l4 nvidia-h100-80gb"},
		{"595.91.07", google, "nvidia-h100-mega-80gb nvidia-h200-141gb"},
		{"595.91.07", karpenter, "t4 t4g a10g a100 l4 l40s h100 h200"},
		{"595.91.07", auto, "l40s"},
		{"595.91.07", azure, "T4 A10 A100 H100 H200"},
		{"595.91.07 open", google, "nvidia-b200 nvidia-gb200 nvidia-rtx-pro-6000"},
		{"595.91.07 open", karpenter, "b200 b300 rtx-pro-4500 rtx-pro-server-6000"},
		{"595.91.07 open", azure, "RTXPRO6000BSE GB200 GB300"},
	} {
		for value := range strings.FieldsSeq(c.values) {
			p := decide(t, shape{labels: map[string]string{c.key: value}})
			got := place(p)
			if len(p.Pools) == 1 && p.Pools[0].KernelModuleType == "open" {
				got += " open"
			}
			assert.Equalf(t, c.driver, got, "%s=%s: %v", c.key, value, p.Without)
		}
	}
	amd := decide(t, shape{labels: map[string]string{karpenter: "radeon-pro-v520", "karpenter.k8s.aws/instance-gpu-manufacturer": "amd"}})
	assert.Equalf(t, fleet.GPUUnknown, place(amd), "a GPU of AMD")
}
