package fabric

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/moby/sys/atomicwriter"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/node/daemons"
)

// What a node does about IMEX (memory of GPUs across machines).
const (
	// nothing: the programs are in the driver root, for the ComputeDomains of the DRA driver
	IMEXOff     = "none"
	IMEXChannel = "channel" // the driver makes channel 0, which all programs of the node share
	IMEXService = "service" // the same, and nvidia-imex runs: not together with ComputeDomains
)

const (
	imexProgram = "usr/bin/nvidia-imex"
	imexConfig  = "etc/nvidia-imex/config.cfg"
	imexNodes   = "imex_nodes.cfg" // the mounted list of the domain's nodes
)

// IMEX returns nvidia-imex as a service. The list of the nodes is a mounted file with one address a
// line. An error says what is missing.
func IMEX(f Facts) ([]daemons.Spec, error) {
	f = f.withDefaults()
	if !f.has(imexProgram) {
		return nil, fmt.Errorf(
			"--imex=service (DRIVER_IMEX): the image has no /%s; use an image with the driver's component imex",
			imexProgram,
		)
	}
	nodes := filepath.Join(f.Drivers, imexNodes)
	if err := checkNodes(nodes); err != nil {
		return nil, fmt.Errorf("--imex=service (DRIVER_IMEX): %w", err)
	}
	config := filepath.Join(f.Work, "imex.cfg")
	return []daemons.Spec{{
		Name: "nvidia-imex", Path: f.path(imexProgram), Args: []string{"-c", config},
		Effect: "GPUs of other machines cannot be reached until it is back",
		Before: func(context.Context) error {
			text, err := bounded.File(f.path(imexConfig), maxConfig)
			if errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
			text = apply(text, map[string]string{"DAEMONIZE": "0", "IMEX_NODE_CONFIG_FILE": nodes})
			err = cmp.Or(
				err,
				os.MkdirAll(f.Work, 0o755),
				atomicwriter.WriteFile(config, text, 0o644),
			)
			if err != nil {
				return fmt.Errorf("configure nvidia-imex: %w", err)
			}
			return nil
		},
		StartWait: time.Minute, StopWait: 10 * time.Second,
	}}, nil
}

// checkNodes requires a list with an address.
func checkNodes(path string) error {
	text, err := bounded.Text(path, maxConfig)
	if err != nil {
		return fmt.Errorf("the list of the domain's nodes, one address a line: %w; mount it", err)
	}
	for line := range strings.Lines(text) {
		if s := strings.TrimSpace(line); s != "" && !strings.HasPrefix(s, "#") {
			return nil
		}
	}
	return fmt.Errorf("the list of the domain's nodes %s has no address", path)
}
