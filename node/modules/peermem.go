package modules

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/driver-container/driver-container/kmod/kbuild"
)

// If Mellanox's own driver is used, nvidia-peermem is compiled against it. NVIDIA's sources search
// for it at the first path, Mellanox's container has it at the second one.
const (
	ofedSource    = "usr/src/ofa_kernel"
	ofedContainer = "run/mellanox/drivers/usr/src/ofa_kernel"
)

// OFED finds the sources of Mellanox's driver below root and creates the link through which
// NVIDIA's sources find them. It returns a name of the symbols that they offer to other modules,
// because modules that were compiled against other symbols differ; "" if there are no such sources.
func OFED(root, kernelArch, release string) (string, error) {
	source := filepath.Join(root, ofedSource)
	container := filepath.Join(root, ofedContainer)
	_, own := os.Stat(source)
	_, beside := os.Stat(container)
	if errors.Is(own, fs.ErrNotExist) && errors.Is(beside, fs.ErrNotExist) {
		return "", nil
	}
	if errors.Is(own, fs.ErrNotExist) {
		err := os.Symlink("/"+ofedContainer, source)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("link the sources of Mellanox's driver: %w", err)
		}
	}
	for _, dir := range []string{source, container} {
		// as nvidia-peermem.Kbuild
		for _, folder := range []string{filepath.Join(kernelArch, release), release, "default"} {
			sum, _, err := kbuild.Digest(filepath.Join(dir, folder, "Module.symvers"))
			if err == nil {
				return "ofa_kernel-" + sum[:12], nil
			}
			if !errors.Is(err, fs.ErrNotExist) {
				return "", err
			}
		}
	}
	return "", nil
}
