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

	"github.com/driver-container/driver-container/distros/bounded"
)

// labelsFile is the file in the folder of Node Feature Discovery
// (/etc/kubernetes/node-feature-discovery/features.d on the host). NFD's worker reads files of NAME=VALUE
// lines there, its "local" source, and makes labels of the names whose namespace it may write; nvidia.com is
// one of them by default. It ignores files whose names begin with a dot, as the name of an unfinished copy
// does.
const labelsFile = "nvidia-driver"

// writeLabels replaces the whole file. It does not touch a file with the same labels, because NFD reacts to
// every change. The folder belongs to the host and must be mounted: writeLabels does not create it.
func writeLabels(dir string, labels map[string]string) error {
	var text strings.Builder
	text.WriteString("# Written by the NVIDIA driver container, and removed when its driver goes.\n")
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		text.WriteString(name + "=" + labels[name] + "\n")
	}
	path := filepath.Join(dir, labelsFile)
	if old, err := bounded.Text(path, int64(text.Len())); err == nil && old == text.String() {
		return nil
	}
	if err := atomicwriter.WriteFile(path, []byte(text.String()), 0o644); err != nil {
		return fmt.Errorf("write node features to %s: %w; is that folder of the host mounted, and writable?", dir, err)
	}
	return nil
}

// removeLabels removes the file, if there is one, and the copies that an instance left unfinished when it was
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
