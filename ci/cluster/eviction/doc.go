// Package eviction has the tests of cmd/driver-evict against a real API server with the real controllers and
// scheduler: disruption budgets, evictions, resource claims, DaemonSets that follow labels, Events. kwok
// simulates nodes and pods. The tests simulate the driver: its status file and its annotation. What a driver
// really does belongs to ci/cluster/journeys.
package eviction
