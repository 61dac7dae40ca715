// Package bundle knows the list of a bundle: one file with which images and everything
// that belongs to them travel into a site without network. A bundle is a plain tar of an OCI layout:
//
//	oci-layout
//	index.json                     the bundle's manifest, its signature, the images by name, everything else
//	blobs/sha256/<manifest>        the bundle's manifest
//	blobs/sha256/<list>            bundle.json, its layer; then its empty config, its signature
//	blobs/sha256/<documents>       all manifests and indexes, also of images whose layers are not here
//	blobs/sha256/<blobs>           configs and layers in the order of import, each once
//
// The list names every digest. index.json is computed from the list and compared byte by byte, because no
// digest covers it. A signature of the bundle's manifest therefore covers everything.
//
// This package reads no archive and reaches no registry: packages writing, reading and importing do.
package bundle
