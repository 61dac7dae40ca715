package devices

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/distros/bounded"
)

// maxStorageNodes is more than the nodes that nvidia-fs makes: 16, or its parameter max_devices if that
// is less.
const maxStorageNodes = 64

// wantCompanions returns the nodes of nvidia-fs (GPUDirect Storage) and gdrdrv (GDRCopy). Their modes are
// those of NVIDIA: nvfs_devnode in nvfs-core.c, and insmod.sh of GDRCopy. Where /dev is the host's, the
// kernel has made those of nvidia-fs already. The numbers of nvidia-fs count from 0, and sysfs has an entry
// for each.
func (n Nodes) wantCompanions(majors map[string]uint32) ([]wantedNode, error) {
	own := owner{mode: 0o666, modify: true}
	var want []wantedNode
	if major, ok := majors["nvidia-fs"]; ok {
		for minor := range uint32(maxStorageNodes) {
			name := fmt.Sprintf("nvidia-fs%d", minor)
			text, err := bounded.File(filepath.Join(n.Sys, "class/nvidia-fs-class", name, "dev"), maxSmall)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
				break
			}
			if err != nil {
				return nil, err
			}
			if strings.TrimSpace(string(text)) == fmt.Sprintf("%d:%d", major, minor) {
				want = append(want, wantedNode{name, major, minor, own})
			}
		}
	}
	if major, ok := majors["gdrdrv"]; ok {
		want = append(want, wantedNode{"gdrdrv", major, 0, own})
	}
	return want, nil
}
