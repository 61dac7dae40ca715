package evict

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

// Config is what flags and environment say.
type Config struct {
	Node      string // name of this node
	Pod       string // name of the pod that this process and the driver run in: the value of the safe-load annotation
	Namespace string // the pod's
	UID       string // the pod's

	Run         string        // folder with driver-status.json: /run/nvidia
	Timeout     time.Duration // how long an eviction may take, and then again how long the driver's start may take
	RetryAfter  time.Duration // pause after an attempt that failed
	GracePeriod int64         // seconds given to evicted pods; -1: their own
	Force       bool          // evict pods without a controller too: nobody makes them anew
}

// Defaults are those of the documentation.
func Defaults() Config {
	return Config{Run: "/run/nvidia", Timeout: 5 * time.Minute, RetryAfter: time.Minute, GracePeriod: -1}
}

// ErrConfig marks what has to be corrected in flags, environment or the pod's specification.
var ErrConfig = errors.New("bad configuration")

// Check finds values that cannot be meant.
func (c Config) Check() error {
	var errs []error
	for _, f := range []struct{ flag, value, field string }{
		{"--node-name (NODE_NAME)", c.Node, "spec.nodeName"},
		{"--pod (POD_NAME)", c.Pod, "metadata.name"},
		{"--pod-namespace (POD_NAMESPACE)", c.Namespace, "metadata.namespace"},
		{"--pod-uid (POD_UID)", c.UID, "metadata.uid"},
	} {
		if f.value == "" {
			errs = append(errs, fmt.Errorf("%s is empty; set the environment variable from the pod's field %s", f.flag, f.field))
		}
	}
	if !filepath.IsAbs(c.Run) {
		errs = append(errs, fmt.Errorf("--run-dir (DRIVER_RUN_DIR) is %q; it must be an absolute path", c.Run))
	}
	if c.Timeout < 10*time.Second || c.RetryAfter < time.Second {
		errs = append(errs, fmt.Errorf("--timeout is %s and --retry-after is %s; the first must be at least 10s, the second at least 1s", c.Timeout, c.RetryAfter))
	}
	if c.GracePeriod < -1 {
		errs = append(errs, fmt.Errorf("--grace-period is %d; it must be a number of seconds, or -1 for the pods' own", c.GracePeriod))
	}
	if len(errs) > 0 {
		return fmt.Errorf("%w: %w", ErrConfig, errors.Join(errs...))
	}
	return nil
}
