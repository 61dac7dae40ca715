package fabric

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"
)

// killWait is how long a program may take to end after it was killed.
const killWait = 2 * time.Second

// resetGPUs runs nvidia-smi -r, which is killed when ctx ends.
func (f Facts) resetGPUs(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, f.path("usr/bin/nvidia-smi"), "-r")
	cmd.WaitDelay = time.Second
	ended := make(chan error, 1)
	var out []byte
	go func() {
		var err error
		out, err = cmd.CombinedOutput()
		ended <- err
	}()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done(): // it may hang in the kernel: wait only a limited time
		select {
		case err = <-ended:
		case <-time.After(killWait):
			return errors.New("reset the GPUs after the change of FABRIC_MODE: nvidia-smi -r hangs and cannot be killed")
		}
	}
	if err != nil {
		return fmt.Errorf("reset the GPUs after the change of FABRIC_MODE: nvidia-smi -r: %w: %.300s", err, bytes.TrimSpace(out))
	}
	return nil
}
