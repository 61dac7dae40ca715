package preflight

// toolkitCompiles reports whether a Driver Toolkit container is to compile: then headers and compiler
// are there.
func (in *Input) toolkitCompiles() bool { return in.Toolkit != "" && in.ToolkitMissing == "" }

// checkToolkit says who compiles in a pod with a Driver Toolkit container. Whether the toolkit has headers of
// the node's kernel, only that container can see.
func checkToolkit(in *Input) result {
	switch {
	case in.Toolkit == "":
		return skip("the pod has no Driver Toolkit container")
	case in.HaveModules:
		return skip("nothing has to be compiled")
	case !in.CanCompile:
		return skip("nothing can be compiled")
	case in.ToolkitMissing != "":
		return warn("Import the image that the release payload of the cluster names (oc adm release info --image-for=driver-toolkit), or entitle the nodes to the package repositories.",
			"the cluster has no image stream tag %s in namespace openshift: headers come from the package repositories", in.ToolkitMissing)
	case !exists(in.Toolkit):
		return warn("Mount one emptyDir there in both containers of the pod.", "%s is not there: headers come from the package repositories", in.Toolkit)
	}
	return ok("the Driver Toolkit container compiles for kernel %s (%s)", in.Release, in.Toolkit)
}
