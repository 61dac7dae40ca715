package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/driverinfo"
)

// Variable is an environment variable that NVIDIA's driver containers read or that the GPU Operator
// sets. Those that are ignored are here too, because a person who sets one expects something of it.
type Variable struct {
	Name    string   // a name that ends in "_" stands for all that begin with it
	Flag    string   // that it sets, without "--"
	Text    string   // what it does; of an ignored one, why it does nothing, and what does
	Ignored bool     // it has no effect, and a start says so
	Fine    []string // its values that ask for what happens anyway: a start says nothing about them
	Secret  bool     // its value is in no message, and no child inherits it
}

// Passphrase is the passphrase of the key for modules. It has no flag: arguments can be read by
// everybody on the node.
const Passphrase = "DRIVER_MODULE_SIGNING_PASSPHRASE"

const (
	ofRepositories = "the kernel's release says which repositories are asked; `DNF_RELEASEVER` overrides it"
	ofNeighbours   = "of other containers that share an environment with this one"
)

// Variables returns all of them, flags first. A flag of several takes the first one that is set.
func Variables() []Variable {
	return []Variable{
		{Name: "ACCEPT_LICENSE", Flag: "accept-license"},
		{Name: "DRIVER_CONFIG_DIGEST", Flag: "config-digest"},
		{Name: "FABRIC_MODE", Flag: "fabric-mode"},
		{Name: "GDRCOPY_ENABLED", Flag: "gdrcopy"},
		{Name: "GDS_ENABLED", Flag: "gds"},
		{Name: "GPU_DIRECT_RDMA_ENABLED", Flag: "rdma"},
		{Name: "KERNEL_MODULE_TYPE", Flag: "kernel-module-type"},
		{Name: "MAX_THREADS", Flag: "max-threads"},
		{Name: "DRIVER_MAX_THREADS", Flag: "max-threads"},
		{Name: "DRIVER_MODULE_SIGNING_CERT", Flag: "module-signing-cert"},
		{Name: "MODULE_SIGNING_CERT_FILE", Flag: "module-signing-cert"},
		{Name: "DRIVER_MODULE_SIGNING_KEY", Flag: "module-signing-key"},
		{Name: "MODULE_SIGNING_KEY_FILE", Flag: "module-signing-key"},
		{Name: "NODE_NAME", Flag: "node-name"},
		{Name: "POD_NAME", Flag: "pod"},
		{Name: "HOSTNAME", Flag: "pod"},
		{Name: "POD_NAMESPACE", Flag: "pod-namespace"},
		{Name: "POD_UID", Flag: "pod-uid"},
		{Name: Passphrase, Text: "passphrase of `--module-signing-key`", Secret: true},
		{Name: "OPEN_KERNEL_MODULES_ENABLED", Text: "`true` is `--kernel-module-type=open`"},
		{Name: "NVFM_CONFIG_", Text: "setting of the fabric manager, by its name in `fabricmanager.cfg`"},
		{Name: "USE_HOST_MOFED", Text: "`reload_nvidia_peermem` waits for the host's own RDMA driver"},
		{Name: "DNF_RELEASEVER", Text: "`$releasever` of the repositories with kernel headers"},
		{Name: "RHCOS_IMAGE_MISSING", Text: "the cluster has no Driver Toolkit for the node: nothing waits for it"},
		{Name: "RHCOS_VERSION", Text: "names that toolkit in messages"},
		{Name: "OPENSHIFT_VERSION", Text: "nothing, and it is not needed: " + ofRepositories},

		{Name: "DRIVER_TYPE", Ignored: true, Fine: []string{"passthrough", "vgpu"},
			Text: "`vgpu` runs the daemons of a licence; any other value is `passthrough`"},
		{Name: "DRIVER_VERSION", Ignored: true, Text: "an image has one driver: choose another image"},
		{Name: "DRIVER_BRANCH", Ignored: true, Text: "an image has one driver: choose another image"},
		{Name: "TARGETARCH", Ignored: true, Text: "an image is for one architecture"},
		{Name: "KERNEL_VERSION", Ignored: true,
			Text: "modules are for the running kernel; `compile --kernel` makes others"},
		{Name: "PACKAGE_TAG", Ignored: true,
			Text: "it names NVIDIA's packages of compiled modules, and no image has them here"},
		{Name: "PRIVATE_KEY", Ignored: true, Secret: true,
			Text: "name the key's file with `--module-signing-key`"},
		{Name: "UBUNTU_PRO_TOKEN", Ignored: true, Secret: true,
			Text: "FIPS kernels need headers on the host, or a precompiled image"},
		{Name: "VGPU_LICENSE_SERVER_TYPE", Ignored: true, Fine: []string{"NLS"},
			Text: "`gridd.conf` and tokens are used where they are mounted"},
		{Name: "DISABLE_VGPU_VERSION_CHECK", Ignored: true, Fine: []string{"true"},
			Text: "an image has one driver: no other is chosen to fit that of the vGPU host"},
		{Name: "RHEL_VERSION", Ignored: true, Text: ofRepositories},
		{Name: "RHEL_MINOR_VERSION", Ignored: true, Text: ofRepositories},
		{Name: "DELAY_BEFORE_VF_CREATION", Ignored: true,
			Text: "it is for vGPU hosts, and this is a driver of guests"},

		{Name: "DRIVER_ARCH", Text: ofNeighbours},
		{Name: "DRIVER_ROOT", Text: ofNeighbours},
		{Name: "DRIVER_ROOT_CTR_PATH", Text: ofNeighbours},
		{Name: "DRIVER_ENTRYPOINT_", Text: ofNeighbours},
	}
}

// Ignored returns the variables that are set and have no effect on this image's driver on a kernel,
// each as NAME and the reason, without its value. What says the same as image and kernel is left
// out.
func Ignored(
	getenv func(name string) string,
	image driverinfo.Description,
	release string,
) (texts []string) {
	facts := map[string]string{
		"DRIVER_VERSION": image.Driver,
		"DRIVER_BRANCH":  strings.TrimPrefix(image.Branch, "R"),
		"TARGETARCH":     image.Arch,
		"KERNEL_VERSION": release,
	}
	for _, v := range Variables() {
		value := getenv(v.Name)
		if !v.Ignored || value == "" || value == facts[v.Name] || slices.Contains(v.Fine, value) {
			continue
		}
		texts = append(texts, fmt.Sprintf("%s: %s", v.Name, v.Text))
	}
	return texts
}
