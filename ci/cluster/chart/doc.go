// Package chart tests deploy/chart with helm and with a real API server (package control): how it renders, which values it
// refuses, whether every object that it makes is accepted, what its service account may do, what becomes of the objects when
// releases are upgraded, rolled back and removed, and how a new driver goes through a thousand nodes.
//
// No container runs here. That the pods do what they should is shown by the journeys of package cluster.
//
// The tests need DRIVER_E2E=1, and Go's module proxy for the programs. testdata/values has the sets of values that are rendered,
// testdata/golden what becomes of them (go test -update writes it anew), testdata/previous.tgz the chart of the version before.
package chart
