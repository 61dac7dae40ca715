package distros

import (
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// TestSignedModules: names of packages as Ubuntu's archive and RHEL's repository have them.
func TestSignedModules(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		system, name, version, arch string
		want                        SignedModules
	}{
		{"ubuntu22.04", "linux-modules-nvidia-595-server-open-6.8.0-1058-azure-fde", "6.8.0-1058.65~22.04.1", "amd64",
			SignedModules{Release: "6.8.0-1058-azure-fde", Flavour: "open", DriverPackage: "nvidia-kernel-common-595-server"}},
		{"ubuntu24.04", "linux-modules-nvidia-580-open-6.14.0-35-generic", "6.14.0-35.35~24.04.1+1", "amd64",
			SignedModules{Release: "6.14.0-35-generic", Flavour: "open", DriverPackage: "nvidia-kernel-common-580"}},
		{"ubuntu22.04", "linux-modules-nvidia-535-server-5.15.0-112-generic", "5.15.0-112.122+1", "amd64",
			SignedModules{Release: "5.15.0-112-generic", Flavour: "proprietary", DriverPackage: "nvidia-kernel-common-535-server",
				Others: []string{"linux-objects-nvidia-535-server-5.15.0-112-generic", "linux-signatures-nvidia-5.15.0-112-generic"}}},
		{"rhel10", "kmod-nvidia-open-580.105.08-6.12.0-124.20.1", "580.105.08-3.el10_1", "x86_64",
			SignedModules{Release: "6.12.0-124.20.1.el10_1.x86_64", Flavour: "open", Driver: "580.105.08"}},
		{"rhel10", "kmod-64k-nvidia-open-580.178.04-6.12.0-211.51.1", "580.178.04-3.el10_2", "aarch64",
			SignedModules{Release: "6.12.0-211.51.1.el10_2.aarch64+64k", Flavour: "open", Driver: "580.178.04"}},
		{"azurelinux3.0", "cuda-open-hwe", "580.105.08-1_6.12.57.1.1.azl3", "x86_64",
			SignedModules{Release: "6.12.57.1-1.azl3", Flavour: "open", Driver: "580.105.08"}},
		{"azurelinux3.0", "cuda-open", "560.35.03-1_6.6.82.1.1.azl3", "x86_64",
			SignedModules{Release: "6.6.82.1-1.azl3", Flavour: "open", Driver: "560.35.03"}},
		// metapackages, and packages of others
		{system: "azurelinux3.0", name: "cuda-open", version: "13.0.2-1", arch: "x86_64"},
		{system: "azurelinux3.0", name: "cuda-open", version: "580.105.08-1_6.12.57.1.1.azl4", arch: "x86_64"},
		{system: "azurelinux3.0", name: "cuda-open-samples", version: "580.105.08-1_6.12.57.1.1.azl3", arch: "x86_64"},
		{system: "azurelinux3.0", name: "cuda", version: "560.35.03-1_6.6.82.1.1.azl3", arch: "x86_64"},
		{system: "ubuntu22.04", name: "linux-modules-nvidia-580-server-open-generic"},
		{system: "ubuntu22.04", name: "linux-modules-nvidia-580-open-generic-hwe-22.04"},
		{system: "ubuntu22.04", name: "linux-modules-nvidia-580-open-generic-6.8"},
		{system: "debian12", name: "linux-modules-nvidia-580-open-6.14.0-35-generic"},
		{system: "rhel10", name: "kmod-nvidia-590.48.01-5.14.0-611.24.1", version: "590.48.01-3.el9_7", arch: "x86_64"},
		{system: "rhel10", name: "kmod-nvidia-open-dkms", version: "595.71.05-1.el9", arch: "noarch"},
		{system: "rocky10", name: "kmod-nvidia-open-580.105.08-6.12.0-124.20.1", version: "580.105.08-3.el10_1", arch: "x86_64"},
	} {
		d := require.Value(Lookup(c.system))(t)
		var got SignedModules
		signer, signs := SigningModules(d)
		ok := false
		if signs {
			got, ok = signer.ParseSignedModules(c.name, c.version, c.arch)
		}
		assert.Equalf(t, c.want.Release != "", ok, "%s %s", c.system, c.name)
		if ok {
			assert.Same(t, c.want, got)
		}
	}
	for signer, system := range map[string]string{
		"Canonical Ltd. Kernel Module Signing": "ubuntu", "Canonical Ltd. Kernel Module Signing 2025 Kmod": "ubuntu", "Nvidia GPU OOT CA": "rhel", "NVIDIA": "", "": "",
	} {
		key, ok := FindModuleKey(signer)
		assert.Equalf(t, system, key.System, "%s", signer)
		assert.Equalf(t, system != "", ok, "%s", signer)
	}
}
