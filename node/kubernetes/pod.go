package kubernetes

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"
)

// Grace returns the time that a pod has to end before it is killed: the one of its deletion, if it
// is being deleted, else its terminationGracePeriodSeconds. It needs the verb get on pods.
func (c *Client) Grace(ctx context.Context, namespace, pod string) (time.Duration, error) {
	if namespace == "" || pod == "" {
		return 0, noCluster(
			"the pod's name is not known: set POD_NAME and POD_NAMESPACE from its fields",
		)
	}
	var object struct {
		Metadata struct{ DeletionGracePeriodSeconds *int64 }
		Spec     struct{ TerminationGracePeriodSeconds *int64 }
	}
	err := c.Do(
		ctx,
		Request{
			Method: http.MethodGet,
			Path:   Path("api", "v1", "namespaces", namespace, "pods", pod),
		},
		&object,
	)
	if err != nil {
		return 0, err
	}
	seconds := cmp.Or(
		object.Metadata.DeletionGracePeriodSeconds,
		object.Spec.TerminationGracePeriodSeconds,
	)
	const most = 1 << 30 // seconds
	if seconds == nil || *seconds < 0 || *seconds > most {
		return 0, fmt.Errorf(
			"pod %s/%s has no usable terminationGracePeriodSeconds",
			namespace,
			pod,
		)
	}
	return time.Duration(*seconds) * time.Second, nil
}
