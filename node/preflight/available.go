package preflight

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/driverinfo"
)

// Missing says that an image without a toolchain has no modules for a kernel, and how to fix that.
func Missing(info driverinfo.Description, release, flavour string) (finding, fix string) {
	fix = fmt.Sprintf(
		"Use an image for this kernel, or one with a toolchain, or add its modules (driver-build --kernel %s ...).",
		release,
	)
	kernels := info.Kernels()
	switch {
	case len(kernels) == 0:
		return "this image has neither modules nor a toolchain", fix
	case slices.Contains(info.Serves(release), flavour):
		return fmt.Sprintf(
				"this image should have %s modules for kernel %s, but they are damaged, or were made by another version of driver-build",
				flavour,
				release,
			),
			"Pull the image again, or build it again."
	case slices.Contains(kernels, release):
		return fmt.Sprintf(
			"this image has no %s modules for kernel %s, only %s ones",
			flavour,
			release,
			strings.Join(info.Serves(release), " and "),
		), fix
	}
	return fmt.Sprintf(
		"this image has modules for kernels %s; this node runs %s",
		strings.Join(kernels, ", "),
		release,
	), fix
}

// checkAvailable checks that there are modules for this kernel, or that they can be compiled. It
// says what mounted images have if none of them has the modules.
func checkAvailable(in *Input) Check {
	c := available(in)
	if !in.Stays && in.Source != "image" && in.Source != "mounted" {
		c.Finding = strings.Join(append([]string{c.Finding}, in.LeftAlone...), "; ")
	}
	return c
}

func available(in *Input) Check {
	switch {
	case in.Stays:
		return ok("the driver that is loaded stays")
	case in.HaveModules && in.Source == "image":
		return ok("the image has modules for kernel %s", in.Release)
	case in.HaveModules && in.Source == "mounted" && len(in.Load) > 0:
		return ok(
			"a mounted image has modules for kernel %s: %s",
			in.Release,
			filepath.Dir(in.Load[0].Path),
		)
	case in.HaveModules:
		return ok("there are modules for kernel %s (%s)", in.Release, in.Source)
	case in.CanCompile && in.Damaged != "":
		return warn(
			"Pull the image again if they are the image's; the modules are compiled on this node meanwhile.",
			"%s",
			in.Damaged,
		)
	case in.CanCompile:
		return ok("modules for kernel %s will be compiled on this node", in.Release)
	case in.Info.Toolchain:
		return block(
			"Use an image with modules for this kernel, or with the driver's sources, and allow it to compile (--no-compile=false).",
			"there are no modules for kernel %s, and they cannot be compiled here",
			in.Release,
		)
	default:
		finding, fix := Missing(in.Info, in.Release, in.Flavour)
		if in.Damaged != "" {
			finding += " (" + in.Damaged + ")"
		}
		return block(fix, "%s", finding)
	}
}
