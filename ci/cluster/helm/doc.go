// Package helm tests deploy/chart with helm and with a real API server (package control): how it
// renders, which values it refuses, whether the API server accepts every object that it makes, what
// its service account may do, and what happens to the objects when releases are upgraded, rolled
// back and removed. It also has the chart's dashboard and alerts: that they query metrics that
// node/metrics serves, and that Debian's Prometheus scrapes them, loads the rules and answers every
// query.
//
// No container runs here. The journeys of package cluster show that the pods do what they should.
//
// Most tests need DRIVER_E2E=1, and Go's module proxy for the programs. testdata/values has the
// sets of values that are rendered, testdata/golden the rendered results (go test -update rewrites
// them), testdata/previous.tgz the chart of the version before.
package helm
