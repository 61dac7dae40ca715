// Package prometheus tests what deploy/monitoring and node/metrics promise each other: that the dashboard and the rules ask for metrics that
// exist, which needs nothing, and that Debian's Prometheus scrapes a real server, loads the rules, answers every question of the
// dashboard, and finds no fault in the metrics' names, which is the real tier (DRIVER_E2E=1). There is no product code in it.
package prometheus
