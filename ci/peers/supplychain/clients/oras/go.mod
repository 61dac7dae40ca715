module github.com/driver-container/driver-container/ci/peers/supplychain/clients/oras

go 1.26.8

require (
	github.com/opencontainers/image-spec v1.1.1
	oras.land/oras-go/v2 v2.6.4
)

require (
	github.com/opencontainers/go-digest v1.0.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
)
