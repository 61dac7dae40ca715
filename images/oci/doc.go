// Package oci reads and writes OCI images without a registry: manifests and indexes, layers that are
// verified while they are read, and images on this machine: OCI layouts, OCI archives and the archives
// of `docker save`.
//
// It speaks no protocol: package registry brings content here and takes it away. It runs nothing and unpacks
// no layer into files.
package oci
