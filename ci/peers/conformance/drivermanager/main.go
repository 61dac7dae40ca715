package main

import (
	"fmt"
	"log"
	"os"
)

// settings are the variables that the operator's DaemonSet gives to the init container.
type settings struct {
	node, namespace string // NODE_NAME, OPERATOR_NAMESPACE
	digest          string // DRIVER_CONFIG_DIGEST
	evict           bool   // ENABLE_GPU_POD_EVICTION
	force           bool   // DRAIN_USE_FORCE: also pods that no controller makes again
	emptyDirs       bool   // DRAIN_DELETE_EMPTYDIR_DATA: also pods with emptyDir volumes
	reinstall       bool   // FORCE_REINSTALL: an equal digest changes nothing
}

func main() {
	log.SetFlags(log.LUTC | log.Ltime)
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(args []string) error {
	s := settings{
		node: os.Getenv("NODE_NAME"), namespace: os.Getenv("OPERATOR_NAMESPACE"), digest: os.Getenv("DRIVER_CONFIG_DIGEST"),
		evict: os.Getenv("ENABLE_GPU_POD_EVICTION") != "false", force: os.Getenv("DRAIN_USE_FORCE") == "true",
		emptyDirs: os.Getenv("DRAIN_DELETE_EMPTYDIR_DATA") == "true", reinstall: os.Getenv("FORCE_REINSTALL") == "true",
	}
	if s.namespace == "" {
		s.namespace = "gpu-operator"
	}
	if s.node == "" {
		return fmt.Errorf("NODE_NAME is required")
	}
	if len(args) != 1 {
		return fmt.Errorf("usage: drivermanager uninstall_driver | preflight_check")
	}
	api, err := inCluster()
	if err != nil {
		return fmt.Errorf("reach the API server: %w", err)
	}
	switch args[0] {
	case "uninstall_driver":
		return manager{settings: s, api: api}.uninstall()
	case "preflight_check": // the original checks nothing in it either
		log.Print("preflight checks completed")
		return nil
	}
	return fmt.Errorf("unknown verb %q", args[0])
}
