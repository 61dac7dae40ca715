package config

import (
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/distros/driverinfo"
)

// nvidias are the variables that NVIDIA's driver containers read and do not set themselves, and those that the GPU
// Operator sets for them: scripts nvidia-driver, common.sh and ocp_dtk_entrypoint of every system, ENV of the
// Dockerfiles (github.com/NVIDIA/gpu-driver-container at 06a208ca9747), and manifests/state-driver of
// github.com/NVIDIA/gpu-operator at a22dbf671f2e. NVIDIA_VISIBLE_DEVICES is for the container runtime.
const nvidias = `ACCEPT_LICENSE DELAY_BEFORE_VF_CREATION DISABLE_VGPU_VERSION_CHECK DNF_RELEASEVER DRIVER_BRANCH
DRIVER_CONFIG_DIGEST DRIVER_TYPE DRIVER_VERSION GDRCOPY_ENABLED GDS_ENABLED GPU_DIRECT_RDMA_ENABLED
KERNEL_MODULE_TYPE KERNEL_VERSION MAX_THREADS NODE_NAME NVFM_CONFIG_ OPENSHIFT_VERSION OPEN_KERNEL_MODULES_ENABLED
PACKAGE_TAG PRIVATE_KEY RHCOS_IMAGE_MISSING RHCOS_VERSION RHEL_MINOR_VERSION RHEL_VERSION TARGETARCH
UBUNTU_PRO_TOKEN USE_HOST_MOFED VGPU_LICENSE_SERVER_TYPE`

// Each variable that an NVIDIA container heeds has an effect here too, or a start says why not, without its value.
func TestVariables(t *testing.T) {
	t.Parallel()
	known := map[string]Variable{}
	for _, v := range Variables() {
		_, twice := known[v.Name]
		known[v.Name] = v
		if twice || v.Flag == "" && v.Text == "" || v.Flag != "" && v.Ignored || v.Fine != nil && !v.Ignored {
			t.Errorf("%+v", v)
		}
	}
	image := driverinfo.Description{Driver: "535.261.03", Branch: "R535", Arch: "amd64"}
	for name := range strings.FieldsSeq(nvidias) {
		v, found := known[name]
		assert.Equalf(t, true, found, "%s is not in the table", name)
		getenv := func(asked string) string {
			if asked == name {
				return "s3cret"
			}
			return ""
		}
		said := strings.Join(Ignored(getenv, image, "6.1.0"), "")
		if v.Ignored != strings.HasPrefix(said, name+": ") || strings.Contains(said, "s3cret") {
			t.Errorf("%s: a start says %q", name, said)
		}
	}
}

// What the image says of itself, and what happens anyway, needs no word.
func TestVariablesOfImage(t *testing.T) {
	t.Parallel()
	image := driverinfo.Description{Driver: "535.261.03", Branch: "R535", Arch: "amd64"}
	env := map[string]string{"DRIVER_VERSION": "535.261.03", "DRIVER_BRANCH": "535", "DRIVER_TYPE": "vgpu", "TARGETARCH": "amd64",
		"KERNEL_VERSION": "6.1.0", "VGPU_LICENSE_SERVER_TYPE": "NLS", "DISABLE_VGPU_VERSION_CHECK": "true"}
	getenv := func(name string) string { return env[name] }
	assert.Equal(t, "", strings.Join(Ignored(getenv, image, "6.1.0"), "; "))
	env["DRIVER_TYPE"] = "vgpu-host"
	assert.Contains(t, strings.Join(Ignored(getenv, image, "6.1.0"), "; "), "DRIVER_TYPE: `vgpu` runs")
}
