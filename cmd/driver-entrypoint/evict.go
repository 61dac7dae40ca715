package main

import (
	"cmp"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/node/evict"
	"github.com/driver-container/driver-container/node/kubernetes"
	"github.com/driver-container/driver-container/node/shim"
)

// evictLink is the name of this program that means the verb evict: charts of all versions start it,
// in images of all versions.
const evictLink = "driver-evict"

// evictCommand runs in a container of its own beside the driver's.
func (p *program) evictCommand() *cobra.Command {
	cfg := evict.Defaults()
	var server, account string
	cmd := &cobra.Command{Use: "evict", Short: "free the node's GPUs for an upgrade, then restore it", Args: noArgs,
		Long: `evict runs beside the driver, in a container of its own without privileges. Before another driver is taken down it cordons the node
and evicts the pods that use GPUs; afterwards it puts the node back in order. It ends with 1 where it could not.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cfg.Check(); err != nil {
				return usageError{err}
			}
			client, err := evict.Connect(cmp.Or(server, kubernetes.Server(p.getenv)), account)
			if err != nil {
				return usageError{err}
			}
			goIdle()
			return evict.New(cfg, client, p.log(), shim.FreeMemory).Run(cmd.Context())
		}}
	f := cmd.Flags()
	f.SortFlags = false
	f.DurationVar(&cfg.Timeout, "timeout", cfg.Timeout, "how long freeing the node may take, and then again the driver's start")
	f.DurationVar(&cfg.RetryAfter, "retry-after", cfg.RetryAfter, "pause after an attempt that failed; twice as long after each further one, up to 30m")
	f.Int64Var(&cfg.GracePeriod, "grace-period", cfg.GracePeriod, "seconds given to evicted pods; -1: their own")
	f.BoolVar(&cfg.Force, "force", false, "evict pods without a controller, too: no controller recreates them")
	f.BoolVar(&cfg.DeleteEmptyDir, "delete-emptydir-data", false, "evict pods with emptyDir volumes, too: the data in them end with the pod")
	f.BoolVar(&cfg.ResourceClaims, "resource-claims", false,
		"find GPU users by the resource claims of NVIDIA's DRA driver, too, and pause its kubelet plugin last")
	f.StringVar(&server, "server", "", "address of the API server; default: what the kubelet tells")
	f.StringVar(&account, "service-account-dir", "/var/run/secrets/kubernetes.io/serviceaccount",
		"folder with the service account's token and ca.crt")
	p.name(f, "DRIVER_EVICT_")
	f.BoolVar(&cfg.DaemonSets, "evict-daemonsets", false,
		"evict pods of DaemonSets that use the driver and have no label to pause them, too: their DaemonSet starts them again at once")
	f.StringVar(&cfg.Run, "run-dir", cfg.Run, "folder with the driver's status, shared with its container")
	f.StringVar(&cfg.Node, "node-name", "", "name of this node")
	f.StringVar(&cfg.Pod, "pod", "", "name of this pod")
	f.StringVar(&cfg.Namespace, "pod-namespace", "", "its namespace")
	f.StringVar(&cfg.UID, "pod-uid", "", "its uid")
	return cmd
}
