// Package oci reads and writes OCI artifacts without a registry: manifests and indexes of any kind,
// layers that are verified while they are read, and images on this machine: OCI layouts, OCI archives
// and the archives of `docker save`. An [Attachment] is what belongs to an image: a signature, an
// attestation, an SBOM.
//
// It speaks no protocol: package registry brings content here and takes it away. It runs nothing and unpacks
// no layer into files.
package oci
