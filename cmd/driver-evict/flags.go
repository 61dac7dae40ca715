package main

import (
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/node/cli"
	"github.com/driver-container/driver-container/node/evict"
	"github.com/driver-container/driver-container/node/kubernetes"
)

// settings are the values of flags and environment.
type settings struct {
	cfg       evict.Config
	server    string
	account   string
	logFormat string
	version   bool
}

// envNames are the environment variables of flags.
var envNames = cli.Names{
	"evict-daemonsets":    {"DRIVER_EVICT_DAEMONSETS"},
	"force":               {"DRIVER_EVICT_FORCE"},
	"grace-period":        {"DRIVER_EVICT_GRACE_PERIOD"},
	"log-format":          {"DRIVER_LOG_FORMAT"},
	"node-name":           {"NODE_NAME"},
	"pod":                 {"POD_NAME"},
	"pod-namespace":       {"POD_NAMESPACE"},
	"pod-uid":             {"POD_UID"},
	"resource-claims":     {"DRIVER_EVICT_RESOURCE_CLAIMS"},
	"retry-after":         {"DRIVER_EVICT_RETRY_AFTER"},
	"run-dir":             {"DRIVER_RUN_DIR"},
	"server":              {"DRIVER_EVICT_SERVER"},
	"service-account-dir": {"DRIVER_EVICT_SERVICE_ACCOUNT_DIR"},
	"timeout":             {"DRIVER_EVICT_TIMEOUT"},
}

func newSettings() (*settings, *pflag.FlagSet) {
	s := &settings{cfg: evict.Defaults()}
	f := pflag.NewFlagSet("driver-evict", pflag.ContinueOnError)
	f.SortFlags = false
	f.SetOutput(io.Discard) // run prints errors and help
	f.Usage = func() {}
	f.DurationVar(&s.cfg.Timeout, "timeout", s.cfg.Timeout, "how long freeing the node may take, and then again the driver's start")
	f.DurationVar(&s.cfg.RetryAfter, "retry-after", s.cfg.RetryAfter, "pause after an attempt that failed")
	f.Int64Var(&s.cfg.GracePeriod, "grace-period", s.cfg.GracePeriod, "seconds given to evicted pods; -1: their own")
	f.BoolVar(&s.cfg.Force, "force", false, "evict pods without a controller, too: no controller recreates them")
	f.BoolVar(&s.cfg.DaemonSets, "evict-daemonsets", false, "evict pods of DaemonSets that use the driver and have no label to pause them, too: their DaemonSet starts them again at once")
	f.BoolVar(&s.cfg.ResourceClaims, "resource-claims", false, "find GPU users by the resource claims of NVIDIA's DRA driver, too, and pause its kubelet plugin last")
	f.StringVar(&s.cfg.Run, "run-dir", s.cfg.Run, "folder with the driver's status, shared with its container")
	f.StringVar(&s.cfg.Node, "node-name", "", "name of this node")
	f.StringVar(&s.cfg.Pod, "pod", "", "name of this pod")
	f.StringVar(&s.cfg.Namespace, "pod-namespace", "", "its namespace")
	f.StringVar(&s.cfg.UID, "pod-uid", "", "its uid")
	f.StringVar(&s.server, "server", "", "address of the API server; default: what the kubelet tells")
	f.StringVar(&s.account, "service-account-dir", "/var/run/secrets/kubernetes.io/serviceaccount", "folder with the service account's token and ca.crt")
	f.StringVar(&s.logFormat, "log-format", "text", "how messages are written to stderr: text or json")
	f.BoolVar(&s.version, "version", false, "print the version")
	f.VisitAll(envNames.Describe)
	return s, f
}

func usage(f *pflag.FlagSet) string {
	return "driver-evict frees a node's GPUs when the driver of its pod asks for that, and puts the node back in order afterwards.\n\nFlags:\n" + f.FlagUsages()
}

// parse reads the flags, and the environment for flags that are not given.
func (s *settings) parse(f *pflag.FlagSet, args, env []string) error {
	if err := f.Parse(args); err != nil {
		return fmt.Errorf("%w: %w", evict.ErrConfig, cli.Explain(err))
	}
	if f.NArg() > 0 {
		return fmt.Errorf("%w: driver-evict takes no arguments, but got %q", evict.ErrConfig, f.Args())
	}
	if err := envNames.Set(f, env); err != nil {
		return fmt.Errorf("%w: %w", evict.ErrConfig, err)
	}
	switch {
	case s.version:
		return nil
	case s.logFormat != "text" && s.logFormat != "json":
		return fmt.Errorf("%w: --log-format is %q; it must be text or json", evict.ErrConfig, s.logFormat)
	}
	if s.server == "" {
		s.server = kubernetes.Server(func(name string) string { return cli.Lookup(env, name) })
	}
	return s.cfg.Check()
}
