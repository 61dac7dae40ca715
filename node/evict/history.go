package evict

import (
	"fmt"
	"strings"
	"time"
)

const (
	// maxReturns is how often pods of one controller may come back to the node during an attempt. A
	// controller whose pods the scheduler has already bound to the node sends them once.
	maxReturns = 3
	// longestPause bounds the pause between attempts that fail one after the other.
	longestPause = 30 * time.Minute
)

// history is what earlier sweeps and attempts have shown. It keeps the node from being cordoned,
// and pods from being evicted, again and again for an attempt that cannot succeed. A new process
// begins without it.
type history struct {
	failures   int           // attempts in a row that failed
	pause      time.Duration // after the last of them
	pauseUntil time.Time

	late  map[string]bool // UIDs of pods that had not ended when the last attempt was given up
	first map[string]bool // UIDs of the pods at the first sweep of this attempt; nil before it
	// sweeps that evicted pods which came later, by the UID of their controller
	returns map[string]int
}

// begin prepares for an attempt.
func (h *history) begin() {
	h.first = nil
	h.returns = map[string]int{}
}

// failed records an attempt that failed, the pods that had not ended, and for how long the server
// asks to wait.
func (h *history) failed(late []string, retryAfter, asked time.Duration) {
	h.failures++
	h.late = map[string]bool{}
	for _, uid := range late {
		h.late[uid] = true
	}
	h.pause = max(grown(retryAfter, h.failures, longestPause), asked)
	h.pauseUntil = time.Now().Add(h.pause)
}

// grown returns the pause after a number of failures in a row: twice as long after each further
// one, up to longest.
func grown(pause time.Duration, failures int, longest time.Duration) time.Duration {
	for range failures - 1 {
		if pause >= longest {
			break
		}
		pause = min(2*pause, longest)
	}
	return pause
}

// see records the pods of the first sweep.
func (h *history) see(pods []Pod) {
	if h.first != nil {
		return
	}
	h.first = map[string]bool{}
	for i := range pods {
		h.first[pods[i].Metadata.UID] = true
	}
}

// count records the pods that one sweep has evicted.
func (h *history) count(evicted []*Pod) {
	controllers := map[string]bool{}
	for _, p := range evicted {
		controller := p.controller()
		if controller.UID != "" && !h.first[p.Metadata.UID] {
			controllers[controller.UID] = true
		}
	}
	for uid := range controllers {
		h.returns[uid]++
	}
}

// refusal says why the history lets no pod be evicted, or no attempt begin; "" when it does.
func (h *history) refusal(p *Pod, k kind, trial bool) string {
	controller := p.controller()
	switch {
	case trial && p.isEnding() && h.late[p.Metadata.UID]:
		return fmt.Sprintf(
			"pod %s was told to end by %s and has not ended: the next attempt begins when it has; "+
				"to give pods more time, raise --timeout (DRIVER_EVICT_TIMEOUT)",
			p,
			p.Metadata.DeletionTimestamp.UTC().Format(time.RFC3339),
		)
	case p.isEnding() || h.returns[controller.UID] < maxReturns:
		return ""
	case trial && k != daemon && !p.toleratesCordon(): // it may go to another node this time
		return ""
	}
	return fmt.Sprintf(
		"pod %s came back to the cordoned node each time: end its %s %s, or take the node from it: "+
			"its toleration of %s, its nodeName, its node selector",
		p,
		controller.Kind,
		controller.Name,
		cordonTaint,
	)
}

// cordonTaint is the taint of a cordoned node.
const cordonTaint = "node.kubernetes.io/unschedulable"

// toleratesCordon says that the scheduler may bind such a pod to a cordoned node.
func (p *Pod) toleratesCordon() bool {
	for _, toleration := range p.Spec.Tolerations {
		ofKey := toleration.Key == cordonTaint &&
			(toleration.Operator == "Exists" || toleration.Value == "")
		ofAll := toleration.Key == "" && toleration.Operator == "Exists"
		ofEffect := toleration.Effect == "" || toleration.Effect == "NoSchedule"
		if ofEffect && (ofKey || ofAll) {
			return true
		}
	}
	return false
}

// controller returns the owner that recreates a pod; empty when there is none.
func (p *Pod) controller() owner {
	for _, o := range p.Metadata.OwnerReferences {
		if o.Controller {
			return o
		}
	}
	return owner{}
}

// emptyDirs returns the names of a pod's emptyDir volumes, whose content ends with the pod; "" when
// it has none. Those in memory count, as for kubectl drain.
func (p *Pod) emptyDirs() string {
	var names []string
	for _, volume := range p.Spec.Volumes {
		if volume.EmptyDir != nil {
			names = append(names, volume.Name)
		}
	}
	return strings.Join(names, ", ")
}
