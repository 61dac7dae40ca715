package preflight

import "github.com/driver-container/driver-container/node/vgpu"

// checkVGPU asks whether the guest driver fits the hosts of the machine's vGPUs, and about the licence.
func checkVGPU(in *Input) result {
	if in.VGPU == nil {
		return skip("vGPUs were not looked for")
	}
	f := in.VGPU()
	status := map[vgpu.Level]Status{vgpu.Fine: OK, vgpu.Doubtful: Warning, vgpu.Fatal: Blocked}[f.Level]
	return result{status: status, finding: f.Text, fix: f.Fix}
}
