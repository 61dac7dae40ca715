package toolkit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// releaseFile is where a Driver Toolkit names its kernels.
const releaseFile = "etc/driver-toolkit-release.json"

// maxReleaseFile bounds that file; toolkits have 150 bytes.
const maxReleaseFile = 64 << 10

// release is what a Driver Toolkit says of itself. All of it may be missing.
type release struct {
	Kernel   string `json:"KERNEL_VERSION"`
	RTKernel string `json:"RT_KERNEL_VERSION"`
}

// readRelease reads the file of a Driver Toolkit. Other images have none. A file that names no kernel
// is an error of ErrUnsuitable: the image is damaged.
func readRelease(tree *rootfs.Tree) (r release, err error) {
	e, err := tree.Stat(releaseFile)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	content, err := e.Open()
	if err != nil {
		return r, fmt.Errorf("%w: /%s: %w", ErrUnsuitable, releaseFile, err)
	}
	data, err := bounded.Read(content, maxReleaseFile)
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	for _, kernel := range r.releases() {
		err = errors.Join(err, recipe.CheckRelease(kernel))
	}
	if err != nil {
		return r, fmt.Errorf("%w: /%s cannot be read: %v", ErrUnsuitable, releaseFile, err) //nolint:errorlint // the image is wrong, not a flag
	}
	return r, nil
}

// releases are the kernels that the file names.
func (r release) releases() []string {
	return slices.DeleteFunc([]string{r.Kernel, r.RTKernel}, func(s string) bool { return s == "" })
}

// isNamed says whether a kernel is the one that the file names. Real-time kernels of RHEL 9 have "+rt" at the
// end of their release, which the version of their package lacks.
func isNamed(kernel, named string) bool { return kernel == named || kernel == named+"+rt" }
