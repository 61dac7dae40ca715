// Package supplychain asks programs of other projects about what the project signs and documents:
// cosign 2 and 3, containers/image (Podman, CRI-O, Skopeo) with a policy, oras, regctl, the
// libraries of SPDX, CycloneDX, in-toto and OpenVEX, the schemas of image-spec, syft, and trivy's
// reader of SBOMs.
//
// Program builds them. Each folder of clients is a Go module of its own, with one program, because
// their dependencies exclude each other. The other functions run them, on servers that they start
// on loopback.
//
// The package is for the tests of the real tier. Offline, in TestMain, takes the network away from
// them: only loopback is left, so that no judge can ask a transparency log or fetch its keys. It
// needs root.
package supplychain
