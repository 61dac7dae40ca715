package preflight

import "github.com/driver-container/driver-container/node/fabric"

// found is the result of a check that another package made: without a fix all is well.
func found(text, fix string, fatal bool) Check {
	switch {
	case fatal:
		return block(fix, "%s", text)
	case fix != "":
		return warn(fix, "%s", text)
	}
	return ok("%s", text)
}

// checkFabric asks whether the image can manage the machine's NVLink switches.
func checkFabric(in *Input) Check {
	if in.Fabric == nil {
		return skip("NVLink switches were not looked for")
	}
	trees := in.moduleTrees()
	is := func(p presence) func(string) bool {
		return func(name string) bool { return in.presence(name, trees) == p }
	}
	return found(
		in.Fabric(
			fabric.Kernel{
				Loaded:   is(present),
				Loadable: is(loadable),
				Packages: in.modulePackages(),
			},
		),
	)
}

// checkGPUDirect asks which companions will be missing. The driver works without them, so it never
// blocks.
func checkGPUDirect(in *Input) Check {
	if len(in.Companions) == 0 {
		return skip("neither GPUDirect Storage nor GDRCopy is asked for")
	}
	text, fix := in.GPUDirect()
	return found(text, fix, false)
}

// checkVGPU asks about the files of a vGPU licence.
func checkVGPU(in *Input) Check {
	if in.VGPU == nil {
		return skip("vGPUs were not looked for")
	}
	return found(in.VGPU())
}
