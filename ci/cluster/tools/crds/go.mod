// The definitions of the Prometheus Operator's objects, which the chart's tests give to the API server. Nothing is built from
// this module: ../build copies files out of it, so there is nothing for go mod tidy to keep either.
module github.com/driver-container/driver-container/ci/cluster/tools/crds

go 1.26.0

require github.com/prometheus-operator/prometheus-operator v0.85.0
