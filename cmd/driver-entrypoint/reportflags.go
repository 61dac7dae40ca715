package main

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/distros/lazyregexp"
)

// reportFlags are the reports of an instance besides the node's own files. All of them are off by
// default.
type reportFlags struct {
	metrics   string // address to listen on
	gpuEvery  time.Duration
	events    bool
	condition bool
	safeLoad  bool
	taints    []string
}

func (r *reportFlags) flags(f *pflag.FlagSet) {
	f.StringVar(
		&r.metrics,
		"metrics-addr",
		"",
		"serve /metrics, /healthz and /readyz at this address, such as :9835",
	)
	f.DurationVar(
		&r.gpuEvery,
		"gpu-metrics-every",
		30*time.Second,
		"ask the GPUs for memory and utilisation at most so often, when metrics are scraped; 0: never",
	)
	f.BoolVar(
		&r.events,
		"events",
		false,
		"Kubernetes Events on this pod and on the node; the service account may create and patch events",
	)
	f.BoolVar(
		&r.condition,
		"node-condition",
		false,
		"node condition NVIDIADriverReady; the service account may patch nodes/status",
	)
	f.BoolVar(
		&r.safeLoad,
		"safe-load",
		false,
		"before another driver is taken down, wait until the node was prepared for it: until the annotation that is set then was removed; the service account may get and patch nodes",
	)
	f.StringSliceVar(
		&r.taints,
		"startup-taint",
		nil,
		"key of a taint to remove from this node once the driver serves, and never to add; several times; the service account may get and patch nodes",
	)
}

// taintKey is a qualified name of Kubernetes.
var taintKey = lazyregexp.New(
	`^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$`,
)

// managedTaints are the prefixes of taints that a controller of Kubernetes sets again whenever its
// own conditions ask for them: the lifecycle of nodes, the cloud's controller, and the Node
// Readiness Controller.
var managedTaints = []string{
	"node.kubernetes.io/",
	"node.cloudprovider.kubernetes.io/",
	"readiness.k8s.io/",
}

// managed says whether a controller of Kubernetes manages the taint.
func managed(key string) bool {
	return slices.ContainsFunc(
		managedTaints,
		func(prefix string) bool { return strings.HasPrefix(key, prefix) },
	)
}

// check finds values that cannot be meant.
func (r *reportFlags) check() error {
	var errs []error
	if r.metrics != "" {
		_, port, err := net.SplitHostPort(r.metrics)
		if _, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil {
			errs = append(
				errs,
				fmt.Errorf(
					"--metrics-addr (DRIVER_METRICS_ADDR) is %q; it must be HOST:PORT or :PORT, with a port below 65536",
					r.metrics,
				),
			)
		}
	}
	if r.gpuEvery < 0 {
		errs = append(
			errs,
			fmt.Errorf(
				"--gpu-metrics-every (DRIVER_GPU_METRICS_EVERY) is %s; it must not be negative",
				r.gpuEvery,
			),
		)
	}
	for _, key := range r.taints {
		if !taintKey().MatchString(key) {
			errs = append(
				errs,
				fmt.Errorf(
					"--startup-taint (DRIVER_STARTUP_TAINT) is %q; it must be the key of a taint, such as example.com/driver-not-ready, without value and effect",
					key,
				),
			)
		} else if managed(key) {
			errs = append(errs, fmt.Errorf("--startup-taint (DRIVER_STARTUP_TAINT) is %q: a controller of Kubernetes manages that taint and would set it again; use a key of your own, such as example.com/driver-not-ready", key))
		}
	}
	if len(errs) > 0 {
		return usageError{errors.Join(errs...)}
	}
	return nil
}

// any says whether a reporter has to follow the status.
func (r *reportFlags) any() bool {
	return r.events || r.condition || r.safeLoad || len(r.taints) > 0
}
