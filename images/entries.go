package images

import (
	"bytes"
	"io/fs"
	"iter"
	"maps"

	"github.com/driver-container/driver-container/images/rootfs"
)

func addBytes(tree *rootfs.Tree, name string, mode fs.FileMode, data []byte) error {
	return tree.AddFile(name, mode, int64(len(data)), bytes.NewReader(data))
}

func mapsKeys(m map[string]string) iter.Seq[string] { return maps.Keys(m) }
