// Package modulebuild has what every compile of an image's driver on a machine shares: where the sources of a
// flavour are, which companions are compiled with them, the RDMA driver of the node that nvidia-peermem is
// compiled against, and the lines of the log. Package kbuild compiles.
package modulebuild

import (
	"path/filepath"

	"github.com/driver-container/driver-container/distros/driverinfo"
)

// Sources returns the folder in an image with the sources of a driver's modules of a flavour.
func Sources(driver, flavour string) string {
	dir := "kernel"
	if flavour == driverinfo.Open {
		dir = "kernel-open"
	}
	return filepath.Join("/usr/src", "nvidia-"+driver, dir)
}
