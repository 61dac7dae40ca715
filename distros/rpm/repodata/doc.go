// Package repodata reads the metadata formats of a repository: repomd.xml with the checksums of its lists, the compression of
// the lists, modules.yaml, and the XML of the large lists by a fast reader with bounds.
//
// It knows neither the network nor signatures: it takes bytes and gives what they say. See rpm for how they get here.
package repodata
