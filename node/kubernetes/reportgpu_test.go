package kubernetes

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/node/status"
)

// TestGPUEvents: a GPU that is lent, lost and given back is an Event on pod and node each time, the condition
// and the labels count the others.
func TestGPUEvents(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	at := func(state status.GPUState, reason string) status.Snapshot {
		st := serves
		st.GPUs = []status.GPU{{Address: "0000:05:00.0", ID: "10de:1eb8", Name: "Tesla T4", State: status.GPUOurs, Works: true},
			{Address: "0000:06:00.0", ID: "10de:1eb8", Name: "Tesla T4", State: state, Works: state == status.GPUOurs, Reason: reason}}
		return st
	}
	b.see(t, 0, status.Snapshot{State: status.Starting, Phase: "verify"})
	b.see(t, 0, at(status.GPULent, "lent to vfio-pci"))
	if c := b.condition(); !strings.HasPrefix(c, "True Serving") || !strings.Contains(c, "1 of 1 GPUs work, lent: 0000:06:00.0; the start") {
		t.Error(c)
	}
	b.see(t, time.Minute, at(status.GPUOurs, ""))
	b.see(t, time.Minute, at(status.GPUOurs, ""))
	lost := at(status.GPULost, "its configuration space reads as all ones")
	lost.State, lost.Ready, lost.Reason = status.Degraded, false, "GPU 0000:06:00.0 (10de:1eb8) fell off the bus"
	b.see(t, time.Hour, lost)
	assert.Equal(t, "False Degraded GPU 0000:06:00.0 (10de:1eb8) fell off the bus", b.condition())
	b.see(t, time.Minute, at(status.GPUOurs, ""))
	b.see(t, time.Minute, at(status.GPUTaken, "it is bound to nouveau"))
	const gpu = "GPU 0000:06:00.0 (10de:1eb8)"
	var want []string
	for _, about := range []string{"Node", "Pod"} {
		want = append(want, about+" Normal GPULent x1: "+gpu+": lent to vfio-pci", about+" Normal GPUReturned x2: "+gpu+" is the driver's again",
			about+" Warning GPULost x1: "+gpu+" fell off the bus: its configuration space reads as all ones. Drain the node, and reset the GPU or switch the node off and on",
			about+" Warning GPUTaken x1: "+gpu+": it is bound to nouveau")
	}
	assert.Same(t, want, b.told("GPU"))
}

// told returns the Events whose reason begins with a word.
func (b *bench) told(reason string) []string {
	return slices.DeleteFunc(b.server.Told(), func(line string) bool { return !strings.HasPrefix(strings.Fields(line)[2], reason) })
}

// TestLicenceEvents: a vGPU without a licence, and one that has got it, is an Event once; the condition stays
// True and names it.
func TestLicenceEvents(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	at := func(licence string) status.Snapshot {
		st := serves
		st.GPUs = []status.GPU{{Address: "0000:05:00.0", ID: "10de:1eb8", State: status.GPUOurs, Works: true, Licence: licence}}
		return st
	}
	b.see(t, 0, at("licensed until 2030-01-02T03:04:05Z"))
	b.see(t, time.Minute, at("unlicensed"))
	b.see(t, time.Minute, at("unlicensed"))
	if c := b.condition(); !strings.HasPrefix(c, "True Serving") || !strings.Contains(c, "1 of 1 GPUs work, without a vGPU licence: 0000:05:00.0; the start") {
		t.Error(c)
	}
	b.see(t, time.Hour, at("licensed"))
	assert.Equalf(t, false, strings.Contains(b.condition(), "licence"), "%s", b.condition())
	const licensed = " Normal VGPULicensed x1: vGPU 0000:05:00.0 has a licence: licensed"
	const unlicensed = " Warning VGPUUnlicensed x1: vGPU 0000:05:00.0 has no licence: it becomes slow after some minutes to a day. " +
		"Look at nvidia-gridd, the token and the licence server"
	assert.Same(t, []string{"Node" + licensed, "Node" + unlicensed, "Pod" + licensed, "Pod" + unlicensed}, b.told("VGPU"))
}

// TestGPUsTogether: GPUs that are lost, or are without a licence, at the same time have an Event each.
func TestGPUsTogether(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	lost := serves
	lost.State, lost.GPUs = status.Degraded, nil
	unlicensed := serves
	unlicensed.GPUs = nil
	for n := range 16 {
		g := status.GPU{Address: fmt.Sprintf("0000:%02x:00.0", n), ID: "10de:1eb8", State: status.GPULost, Reason: "silent"}
		lost.GPUs = append(lost.GPUs, g)
		g.State, g.Works, g.Licence = status.GPUOurs, true, "unlicensed"
		unlicensed.GPUs = append(unlicensed.GPUs, g)
	}
	b.see(t, 0, lost)
	b.see(t, time.Hour, unlicensed)
	assert.Equalf(t, 2*16, len(b.told("GPULost")), "of pod and node")
	assert.Equalf(t, 2*16, len(b.told("GPUReturned")), "of pod and node")
	assert.Equalf(t, 2*16, len(b.told("VGPUUnlicensed")), "of pod and node")
}
