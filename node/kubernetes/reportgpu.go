package kubernetes

import (
	"fmt"
	"strings"

	"github.com/driver-container/driver-container/node/status"
)

// recordGPUs records an Event for each GPU that was lent, lost or given back since the last report.
// GPUs that the driver has had from the beginning are no news.
func (r *Reporter) recordGPUs(st status.Snapshot) {
	if !r.events.on || len(st.GPUs) == 0 || !st.Holding() {
		return
	}
	now := map[string]status.GPUState{}
	for _, g := range st.GPUs {
		now[g.Address] = g.State
		r.recordLicence(g)
		before, known := r.gpus[g.Address]
		if before == g.State && known || g.State == "" || !known && g.State == status.GPUOurs {
			continue
		}
		r.emit(gpuEvent(g), true)
	}
	r.gpus = now
}

// emit records an Event for the pod and, if it concerns more than this pod, for its node.
func (r *Reporter) emit(e Event, node bool) {
	e.About = r.o.Pod
	r.recorder.Record(e)
	if node && r.o.Node != "" {
		e.About = Node(r.o.Node)
		r.recorder.Record(e)
	}
}

// recordLicence records an Event for a vGPU that is without a licence, or that has got one after
// that.
func (r *Reporter) recordLicence(g status.GPU) {
	if g.Unlicensed() == r.without[g.Address] {
		return
	}
	r.without[g.Address] = g.Unlicensed()
	e := Event{
		Part:    g.Address,
		Reason:  "VGPULicensed",
		Message: fmt.Sprintf("vGPU %s has a licence: %s", g.Address, g.Licence),
	}
	if g.Unlicensed() {
		e.Reason = "VGPUUnlicensed"
		e.Warning = true
		e.Message = fmt.Sprintf(
			"vGPU %s has no licence: it becomes slow after some minutes to a day. Look at nvidia-gridd, the token and the licence server",
			g.Address,
		)
	}
	r.emit(e, true)
}

// gpuEvent returns the Event for the present state of a GPU.
func gpuEvent(g status.GPU) Event {
	e := Event{
		Part:    g.Address,
		Message: fmt.Sprintf("GPU %s (%s): %s", g.Address, g.ID, g.Reason),
	}
	switch g.State {
	case status.GPULent:
		e.Reason = "GPULent"
	case status.GPUTaken:
		e.Reason = "GPUTaken"
		e.Warning = true
	case status.GPULost:
		e.Reason = "GPULost"
		e.Warning = true
		e.Message = fmt.Sprintf(
			"GPU %s (%s) fell off the bus: %s. Drain the node, and reset the GPU or switch the node off and on",
			g.Address,
			g.ID,
			g.Reason,
		)
	default:
		e.Reason = "GPUReturned"
		e.Message = strings.TrimSuffix(
			fmt.Sprintf("GPU %s (%s) is the driver's again: %s", g.Address, g.ID, g.Reason),
			": ",
		)
	}
	return e
}

// others returns which GPUs the driver does not have, and which have no vGPU licence: ", lent:
// 0000:06:00.0"; "" if there are none.
func others(gpus []status.GPU) (text string) {
	var lent, without []string
	for _, g := range gpus {
		if g.State == status.GPULent {
			lent = append(lent, g.Address)
		}
		if g.Unlicensed() {
			without = append(without, g.Address)
		}
	}
	if len(lent) > 0 {
		text = ", lent: " + strings.Join(lent, " ")
	}
	if len(without) > 0 {
		text += ", without a vGPU licence: " + strings.Join(without, " ")
	}
	return text
}
