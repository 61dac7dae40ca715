package evict

import (
	"errors"
	"fmt"
	"time"

	"github.com/driver-container/driver-container/node/kubernetes"
)

// Config holds the values of flags and environment variables.
type Config struct {
	Node string // name of this node
	// Pod is the name of the pod that this process and the driver run in: the value of the
	// safe-load annotation.
	Pod       string
	Namespace string // namespace of the pod
	UID       string // UID of the pod

	Run string // folder with driver-status.json: /run/nvidia
	// Timeout is how long an eviction may take, and then again how long the driver's start may
	// take.
	Timeout     time.Duration
	RetryAfter  time.Duration // pause after an attempt that failed
	GracePeriod int64         // seconds given to evicted pods; -1: the pods' own grace period
	Force       bool          // evict also pods without a controller, which nothing recreates
	// DaemonSets says to evict also those pods of DaemonSets that use the driver and have no label
	// by which they can be paused. Their DaemonSet starts them again at once.
	DaemonSets bool
	// DeleteEmptyDir says to evict also pods with emptyDir volumes, whose data end with them.
	DeleteEmptyDir bool
	// ResourceClaims says to look at claims of Dynamic Resource Allocation, and to pause the
	// kubelet plugin of NVIDIA's DRA driver when no pod has such a claim any more.
	ResourceClaims bool
}

// Defaults returns the documented defaults.
func Defaults() Config {
	return Config{
		Run:         "/run/nvidia",
		Timeout:     5 * time.Minute,
		RetryAfter:  time.Minute,
		GracePeriod: -1,
	}
}

// Check reports values that are missing or not valid.
func (c Config) Check() error {
	var errs []error
	for _, f := range []struct{ flag, value, field string }{
		{"--node-name (NODE_NAME)", c.Node, "spec.nodeName"},
		{"--pod (POD_NAME)", c.Pod, "metadata.name"},
		{"--pod-namespace (POD_NAMESPACE)", c.Namespace, "metadata.namespace"},
		{"--pod-uid (POD_UID)", c.UID, "metadata.uid"},
	} {
		if f.value == "" {
			errs = append(
				errs,
				fmt.Errorf(
					"%s is empty; set the environment variable from the pod's field %s",
					f.flag,
					f.field,
				),
			)
		}
	}
	if c.Timeout < 10*time.Second || c.RetryAfter < time.Second {
		errs = append(
			errs,
			fmt.Errorf(
				"--timeout is %s and --retry-after is %s; the first must be at least 10s, the second at least 1s",
				c.Timeout,
				c.RetryAfter,
			),
		)
	}
	if c.GracePeriod < -1 {
		errs = append(
			errs,
			fmt.Errorf(
				"--grace-period is %d; it must be a number of seconds, or -1 for the pods' own",
				c.GracePeriod,
			),
		)
	}
	return errors.Join(errs...)
}

// Connect returns the client of the cluster that this pod runs in. It sends nothing yet. server is
// the address of the API server, https://host:port. dir is the folder with the service account's
// token and ca.crt, which are read again when they rotate. An error says that there is no server,
// or no token.
func Connect(server, dir string) (*kubernetes.Client, error) {
	if server == "" {
		return nil, errors.New(
			"there is no API server: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set; " +
				"run this in a pod, or give --server",
		)
	}
	client := kubernetes.New(server, dir)
	client.Name = component
	client.Wait = callTimeout
	if err := client.Check(); err != nil {
		return nil, fmt.Errorf("the service account's token cannot be used: %w; "+
			"mount a projected token with the cluster's ca.crt into this container", err)
	}
	return client, nil
}

const (
	component   = "driver-evict"   // in Events
	callTimeout = 30 * time.Second // of each call of the API: webhooks may look at an eviction
)
