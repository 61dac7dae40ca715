package report

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/atomicwriter"
)

// labelsFile is the file in the folder of Node Feature Discovery
// (/etc/kubernetes/node-feature-discovery/features.d on the host). NFD's worker reads files of NAME=VALUE
// lines there, its "local" source, and makes labels of the names whose namespace it may write; nvidia.com is
// one of them by default. It leaves files alone whose names begin with a dot, as that of an unfinished copy
// does.
const labelsFile = "nvidia-driver"

// writeLabels replaces the file as a whole. A file with the same labels is left alone: NFD looks at all that
// changes. The folder is the host's and must be mounted: it is not made.
func writeLabels(dir string, labels map[string]string) error {
	var text strings.Builder
	text.WriteString("# Written by the NVIDIA driver container, and removed when its driver goes.\n")
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		text.WriteString(name + "=" + labels[name] + "\n")
	}
	path := filepath.Join(dir, labelsFile)
	if old, err := os.ReadFile(path); err == nil && string(old) == text.String() {
		return nil
	}
	if err := atomicwriter.WriteFile(path, []byte(text.String()), 0o644); err != nil {
		return fmt.Errorf("write node features to %s: %w; is that folder of the host mounted, and writable?", dir, err)
	}
	return nil
}

// removeLabels removes the file, if there is one, and copies that an instance left unfinished when it was
// killed.
func removeLabels(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, ".tmp-"+labelsFile+"*"))
	errs := []error{err}
	for _, path := range append(left, filepath.Join(dir, labelsFile)) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove node features: %w", err))
		}
	}
	return errors.Join(errs...)
}
