package vgpu

import (
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/node/probe"
)

func TestUnlicensed(t *testing.T) {
	t.Parallel()
	gpus := []probe.Device{{PCI: "1"}, {PCI: "2", Licence: &probe.Licence{Licensed: true}}, {PCI: "3", Licence: &probe.Licence{Error: "x"}}}
	assert.Equal(t, "", Unlicensed(gpus))
	gpus = append(gpus, probe.Device{PCI: "4", Licence: &probe.Licence{}}, probe.Device{PCI: "5", Licence: &probe.Licence{}})
	assert.Contains(t, Unlicensed(gpus), "vGPU without a licence: 4, 5; it becomes slow")
}
