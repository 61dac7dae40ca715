package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/driver-container/driver-container/ci/peers/conformance/inside"
)

// Options say which root to examine.
type Options struct {
	Root    string // the driver root
	Version string // the driver version that it should have
	Dev     string // folder with the driver's device nodes; "" is /dev
}

// Run lets the programs in dir, which Prepare made, examine a driver root. An error means that they could not
// be run; problems are in the report.
func Run(ctx context.Context, dir string, o Options) (inside.Report, error) {
	args := []string{"--consumer", filepath.Join(dir, "consumer"), "--driver-root", o.Root, "--driver-version", o.Version}
	if o.Dev != "" {
		args = append(args, "--dev", o.Dev)
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "bin/driver-conformance"), args...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &stdout, &stderr, 10*time.Second
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // the child ends with it
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		return inside.Report{}, fmt.Errorf("driver-conformance on %s: %w: %s", o.Root, err, bytes.TrimSpace(stderr.Bytes()))
	}
	var r inside.Report
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		return r, fmt.Errorf("driver-conformance on %s: read its report: %w: %s", o.Root, err, bytes.TrimSpace(stderr.Bytes()))
	}
	return r, nil
}
