module github.com/driver-container/driver-container/ci/peers/supplychain/clients/validate

go 1.26.8

require (
	github.com/CycloneDX/cyclonedx-go v0.12.0
	github.com/in-toto/attestation v1.2.0
	github.com/opencontainers/image-spec v1.1.1
	github.com/openvex/go-vex v0.2.9
	github.com/spdx/tools-golang v0.5.7
	google.golang.org/protobuf v1.36.12
)

require (
	github.com/anchore/go-struct-converter v0.1.0 // indirect
	github.com/kr/text v0.2.0 // indirect
	github.com/opencontainers/go-digest v1.0.0 // indirect
	github.com/package-url/packageurl-go v0.1.7 // indirect
	github.com/santhosh-tekuri/jsonschema/v5 v5.3.1 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)
