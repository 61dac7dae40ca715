package fabric

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/driver-container/driver-container/node/probe"
)

// resetGPUs runs nvidia-smi -r, which is killed when ctx ends.
func (f Facts) resetGPUs(ctx context.Context) error {
	const long = time.Hour // ctx ends before
	code, out, err := probe.Run(ctx, f.path("usr/bin/nvidia-smi"), []string{"-r"}, nil, long)
	if err == nil && code != 0 {
		err = fmt.Errorf("exit code %d: %.300s", code, strings.TrimSpace(out))
	}
	if err != nil {
		return fmt.Errorf("reset the GPUs after the change of FABRIC_MODE: nvidia-smi -r: %w", err)
	}
	return nil
}
