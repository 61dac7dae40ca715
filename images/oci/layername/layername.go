// Package layername says what people call the layers of an image. It reads manifest and config only.
package layername

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// builtBy begins the history of layers that driver-build made: "driver-build VERSION: packages".
const builtBy = "driver-build "

// Of returns what people call the layers and the config of an image, by digest: "packages", or "layer 1 of 7"
// if its history does not say. It is for messages; of an image that cannot be read it is empty.
func Of(img v1.Image) map[v1.Hash]string {
	manifest, err := img.Manifest()
	if err != nil {
		return nil
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil
	}
	names := map[v1.Hash]string{manifest.Config.Digest: "config"}
	histories := slices.DeleteFunc(config.History, func(h v1.History) bool { return h.EmptyLayer })
	for n, l := range manifest.Layers {
		names[l.Digest] = fmt.Sprintf("layer %d of %d", n+1, len(manifest.Layers))
		if len(histories) != len(manifest.Layers) {
			continue
		}
		by := histories[n].CreatedBy
		if _, name, ok := strings.Cut(by, ": "); ok && strings.HasPrefix(by, builtBy) {
			names[l.Digest] = name
		}
	}
	return names
}

// WithArch is Of for an artifact that may have images for several architectures.
func WithArch(img v1.Image) map[v1.Hash]string {
	names := Of(img)
	if config, err := img.ConfigFile(); err == nil && config.Architecture != "" {
		for digest, name := range names {
			names[digest] = name + " " + config.Architecture
		}
	}
	return names
}
