// Package prometheus tests that the chart's dashboard and alerts and node/metrics agree. Tests without requirements check
// that the dashboard and the rules query metrics that exist. The real tier (DRIVER_E2E=1) checks that
// Debian's Prometheus scrapes a real server, loads the rules, answers every query of the dashboard, and
// accepts the metrics' names. The package has no product code.
package prometheus
