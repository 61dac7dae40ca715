package scenarios

import (
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/lab/fakegpu"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/node/vgpu"
)

const vgpuDir = "/vgpu" // in the guest: the description of an image with a guest driver

// vgpuCatalogue has the image's driver and two others of its branch. The host's driver denies the first of
// them, and the entry that follows decides about the image's.
const vgpuCatalogue = `
version: 1
date: "2025-08-01"
branch:
  - {name: R550_00, type: host, allow: {branch: [R535_00]}}
  - {name: R535_00, type: guest, allow: {branch: [R550_00]}}
driver:
  - {version: 535.216.01, date: "2024-10-22", branch: R535_00, type: guest, os: [Linux]}
  - {version: 535.230.02, date: "2025-01-16", branch: R535_00, type: guest, os: [Linux]}
  - {version: 535.154.05, date: "2024-01-16", branch: R535_00, type: guest, os: [Linux]}
  - {version: 535.261.03, date: "2025-07-17", branch: R535_00, type: guest, os: [Linux]}
`

// The host's driver and what it denies.
const (
	deniesOurs   = `  - {version: 550.144.02, date: "2025-01-16", branch: R550_00, type: host, deny: {driver: [{version: 535.154.05}, {version: 535.261.03}]}}` + "\n"
	deniesOthers = `  - {version: 550.144.02, date: "2025-01-16", branch: R550_00, type: host, deny: {driver: [{version: 535.154.05}]}}` + "\n"
)

// A guest with a vGPU, whose configuration space names the driver of its host. Preflight names it for every
// image. Whether a guest driver fits is decided by the catalogue, and DISABLE_VGPU_VERSION_CHECK decides
// whether that stops a start. The image is that of the driver for whole GPUs, described as a guest driver.
func Test29VGPU(t *testing.T) {
	const host = `GPU ` + first + ` is a vGPU of a host with driver 550\.144\.02 \(R550_00\)`
	g := stage{gpus: []fakegpu.Model{fakegpu.T4.VGPU(fakegpu.Host{Version: "550.144.02", Branch: "R550_00"})}, products: map[string]product{"535": d535}}.start(t)
	predicts(t, g, light("535"), 0, `vgpu +warn +`+host+`, and the image has a driver for whole GPUs`, `Use an image with a vGPU guest driver on this node`)

	info := require.Value(driverinfo.Decode([]byte(g.Read("/lab/images/535/" + driverinfo.Path))))(t)
	info.VGPU = driverinfo.VGPUNVIDIA
	note, catalogue := vgpuDir+"/driver.json", "/drivers/"+vgpu.CatalogueName
	g.Write(note, string(require.Value(info.Encode())(t)), 0o644)
	pod := func(check string) lab.Container {
		return light("535", "DRIVER_TYPE=vgpu", "DISABLE_VGPU_VERSION_CHECK="+check).With(lab.Mount{Host: note, Guest: "/" + driverinfo.Path, ReadOnly: true, File: true})
	}
	const unknown = host + `; whether guest driver 535\.261\.03 fits is not known, because there is no ` + "/drivers/" + vgpu.CatalogueName
	predicts(t, g, pod("true"), 0, `vgpu +ok +`+unknown)
	predicts(t, g, pod("false"), 11, `vgpu +FAIL +`+unknown, `Mount NVIDIA's catalogue`)

	g.Write(catalogue, vgpuCatalogue+deniesOurs, 0o644)
	const denied, fitting = host + `: host driver 550\.144\.02 does not work with guest driver 535\.261\.03`, `Use an image with one of these guest drivers: 535\.230\.02, 535\.216\.01\.`
	predicts(t, g, pod("true"), 0, `vgpu +warn +`+denied, fitting)
	predicts(t, g, pod("false"), 11, `vgpu +FAIL +`+denied, fitting, `DISABLE_VGPU_VERSION_CHECK=true starts the driver all the same`)
	fails(t, g, pod("false"), 11, 30*time.Second, `vgpu: `+denied, fitting)

	g.Write(catalogue, vgpuCatalogue+deniesOthers, 0o644)
	predicts(t, g, pod("false"), 0, `vgpu +ok +`+host+`, and guest driver 535\.261\.03 fits \(catalogue of 2025-08-01\)`)
	g.Write(catalogue, "version: [\n", 0o644)
	predicts(t, g, pod("false"), 11, `vgpu +FAIL +.*not a usable vGPU driver catalogue`, `Get the catalogue from the licence portal again`)
}
