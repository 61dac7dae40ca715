// Package repodata reads the metadata formats of a repository: repomd.xml with the checksums of its lists,
// the compression of the lists, modules.yaml, and the XML of the large lists with a fast reader that has
// bounds.
//
// It uses neither the network nor signatures: it reads bytes and returns their content. Package rpm fetches
// and verifies them.
package repodata
