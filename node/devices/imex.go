package devices

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/driver-container/driver-container/distros/bounded"
)

// wantIMEX returns IMEX channel 0 if the driver was loaded to make it (NVreg_CreateImexChannel0=1). The
// driver makes it in the host's /dev only.
func (n Nodes) wantIMEX(majors map[string]uint32, own owner) ([]wantedNode, error) {
	major, ok := majors["nvidia-caps-imex-channels"]
	if !ok {
		return nil, nil
	}
	params, err := bounded.File(filepath.Join(n.Proc, "driver/nvidia/params"), maxText)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("whether the driver makes an IMEX channel: %w", err)
	}
	if parseFields(params)["CreateImexChannel0"] != "1" {
		return nil, nil
	}
	return []wantedNode{{"nvidia-caps-imex-channels/channel0", major, 0, own}}, nil
}
