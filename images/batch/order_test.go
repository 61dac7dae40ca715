package batch_test

import (
	"fmt"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/matrix"
)

// TestOrder: of systems by drivers, the diagonal comes first, then what brings one layer, then the rest; no
// group is lost.
func TestOrder(t *testing.T) {
	t.Parallel()
	var groups []batch.Group
	for _, system := range []string{"debian11", "debian12", "rhel9"} {
		d, err := distros.Lookup(system)
		if err != nil {
			t.Fatal(err)
		}
		for _, driver := range []string{"1", "2", "3", "4"} {
			target := matrix.Target{System: matrix.System{ID: system}, Distro: d, Driver: matrix.Driver{Version: driver}, Arch: "amd64"}
			groups = append(groups, batch.Group{Tag: driver + "-" + system, Images: []batch.Image{{Target: target}}})
		}
	}
	var got []string
	for _, g := range batch.Order(groups) {
		got = append(got, g.Tag)
	}
	// rhel9 has another folder for libraries, and so needs a layer of its own of each driver.
	assert.Equalf(t, "[1-debian11 2-debian12 1-rhel9"+
		" 3-debian11 4-debian11 2-rhel9 3-rhel9 4-rhel9"+
		" 2-debian11 1-debian12 3-debian12 4-debian12]", fmt.Sprint(got), "order")
}
