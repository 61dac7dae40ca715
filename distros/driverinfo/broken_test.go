package driverinfo

import (
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
)

// TestCheckFlavour: which kernels are in a range, and of which that is not certain.
func TestCheckFlavour(t *testing.T) {
	t.Parallel()
	resize := Broken{From: "6.1.187", Below: "6.2", Flavours: []string{Open}, Reason: "four arguments"}
	const no, certain, doubtful = "no", "certain", "doubtful"
	for _, c := range []struct {
		release, version, flavour string
		broken                    []Broken
		want                      string
	}{
		{"6.1.0-56-amd64", "6.1.192", Open, []Broken{resize}, certain},
		{"6.1.0-53-amd64", "6.1.187", Open, []Broken{resize}, certain},
		{"6.1.0-50-amd64", "6.1.176", Open, []Broken{resize}, no},
		{"6.1.0-56-amd64", "", Open, []Broken{resize}, doubtful},
		{"6.1.0-56-amd64", "6.1.192", Proprietary, []Broken{resize}, no},
		{"6.1.192-custom", "", Open, []Broken{resize}, certain},
		{"6.2.0-26-generic", "", Open, []Broken{resize}, no},
		{"6.0.0-4-amd64", "", Open, []Broken{resize}, no},
		{"5.10.0-46-amd64", "", Open, []Broken{{From: "5.9", Reason: "r"}}, certain},
		{"5.8.0-63-generic", "", Open, []Broken{{From: "5.9", Reason: "r"}}, no},
		{"6.2.0-26-generic", "", Open, []Broken{{From: "6.2", Below: "6.2.16", Reason: "r"}}, doubtful},
		{"6.2.16", "", Open, []Broken{{From: "6.2", Below: "6.2.16", Reason: "r"}}, no},
		{"6.1.0-56-amd64", "", Open, []Broken{resize, {From: "6.1", Below: "6.2", Reason: "r"}}, certain},
		{"own", "", Open, []Broken{resize}, no},
	} {
		got := no
		if e := (KernelRule{Broken: c.broken}).CheckFlavour(Kernel{Release: c.release, Version: c.version}, c.flavour); e != nil {
			if got = doubtful; e.Certain {
				got = certain
			}
		}
		assert.Equalf(t, c.want, got, "%s (%s), %s modules, %v", c.release, c.version, c.flavour, c.broken)
	}
}
