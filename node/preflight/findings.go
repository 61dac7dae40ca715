package preflight

import "github.com/driver-container/driver-container/node/fabric"

// checkFabric asks whether the image can manage the machine's NVLink switches.
func checkFabric(in *Input) result {
	if in.Fabric == nil {
		return skip("NVLink switches were not looked for")
	}
	trees := in.moduleTrees()
	is := func(p presence) func(string) bool {
		return func(name string) bool { return in.presence(name, trees) == p }
	}
	f := in.Fabric(fabric.Kernel{Loaded: is(present), Loadable: is(loadable), Packages: in.modulePackages()})
	status := map[fabric.Level]Status{fabric.Fine: OK, fabric.Doubtful: Warning, fabric.Fatal: Blocked, fabric.Unknown: Skipped}[f.Level]
	return result{status: status, finding: f.Text, fix: f.Fix}
}

// checkGPUDirect asks which companions will be missing. The driver works without them, so it never blocks.
func checkGPUDirect(in *Input) result {
	if len(in.Companions) == 0 {
		return skip("neither GPUDirect Storage nor GDRCopy is asked for")
	}
	text, fix := in.GPUDirect()
	if fix != "" {
		return warn(fix, "%s", text)
	}
	return ok("%s", text)
}

// checkVGPU asks about the files of a vGPU licence.
func checkVGPU(in *Input) result {
	if in.VGPU == nil {
		return skip("vGPUs were not looked for")
	}
	switch text, fix, fatal := in.VGPU(); {
	case fatal:
		return block(fix, "%s", text)
	case fix != "":
		return warn(fix, "%s", text)
	default:
		return ok("%s", text)
	}
}
