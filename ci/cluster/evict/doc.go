// Package evict has the tests of cmd/driver-evict against a real API server with the real controllers and scheduler: disruption
// budgets, evictions, DaemonSets that follow labels, Events, the rights that the chart gives, and SIGKILL at each of its requests.
// kwok plays nodes and pods, the tests play the driver beside it: its status file and its annotation. What a driver really does is the
// business of ci/cluster/journeys.
package evict
