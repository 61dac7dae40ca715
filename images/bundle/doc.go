// Package bundle makes, reads and imports bundles: one file with which images and everything that
// belongs to them travel into a site without network. A bundle is a plain tar of an OCI layout:
//
//	oci-layout
//	index.json                     the bundle's manifest, its signature, the images by name, everything else
//	blobs/sha256/<manifest>        the bundle's manifest
//	blobs/sha256/<list>            bundle.json, its layer; then its empty config, its signature
//	blobs/sha256/<documents>       all manifests and indexes, also of images whose layers are not here
//	blobs/sha256/<blobs>           configs and layers in the order of import, each once
//
// The list names every digest. What follows from it is made again and compared: the documents and
// blobs that its items need, index.json, the header of each member. A signature of the bundle's
// manifest therefore covers every byte.
//
//   - [Gather] finds what a bundle is made of; [Prepare] and [Prepared.Write] make it.
//   - [Open] reads a file or a pipe up to the first blob; [Check] verifies all of a file.
//   - [Bundle.Import] pushes it into a registry, [Bundle.Extract] and [Bundle.Adopt] write files.
package bundle
