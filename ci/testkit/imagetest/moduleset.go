package imagetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"

	"github.com/driver-container/driver-container/kmod/kbuild"
)

// PutModules keeps a set of modules in the cache below dir, as driver-entrypoint compile --into
// does. key says of which driver, flavour, kernel and architecture they are; content returns a
// module by name.
func PutModules(
	ctx context.Context,
	dir string,
	key kbuild.Key,
	names []string,
	content func(name string) []byte,
) (_ *kbuild.Set, err error) {
	work, err := os.MkdirTemp("", "set")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	key.Kernel = "headers 00"
	key.Compiler = "gcc 12.2.0"
	key.Method = kbuild.Method
	set := &kbuild.Set{Dir: work, SigHash: "sha256", Key: key}
	for _, name := range names {
		data := content(name)
		file := filepath.Join(work, name+".ko")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			return nil, err
		}
		sum := sha256.Sum256(data)
		set.Modules = append(
			set.Modules,
			kbuild.File{
				Name:   name,
				Path:   file,
				SHA256: hex.EncodeToString(sum[:]),
				Size:   int64(len(data)),
			},
		)
	}
	return kbuild.Cache{Dir: dir}.Put(ctx, set)
}
