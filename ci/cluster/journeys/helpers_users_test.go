package journeys

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/driver-container/driver-container/ci/cluster"
)

// waitEvent waits for an Event with that reason about an object of that kind and name whose message contains
// all the words.
func waitEvent(t *testing.T, c *cluster.Cluster, kind, name, reason string, words ...string) corev1.Event {
	t.Helper()
	var found corev1.Event
	c.Wait(time.Minute, fmt.Sprintf("an Event %s of %s %s with %q", reason, kind, name, words), func() error {
		var seen []string
		for _, e := range c.Events() {
			if e.InvolvedObject.Kind != kind || e.InvolvedObject.Name != name {
				continue
			}
			seen = append(seen, e.Reason+": "+e.Message)
			if e.Reason == reason && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(e.Message, w) }) {
				found = e
				return nil
			}
		}
		return errors.New(strings.Join(seen, "; "))
	})
	return found
}
