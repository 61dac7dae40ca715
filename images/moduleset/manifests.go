package moduleset

import (
	"context"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/kmod/kbuild"
)

// maxManifest bounds the description of a set; it has some kilobytes.
const maxManifest = 4 << 20

// Manifests returns the sets of modules of a layer as their manifests describe them. It reads no module.
func Manifests(ctx context.Context, l v1.Layer) (sets []*kbuild.Set, err error) {
	err = eachFile(ctx, l, func(m member) error {
		if m.file != kbuild.ManifestName || m.link != "" {
			return nil
		}
		text, err := bounded.Read(m.content, maxManifest)
		if err != nil {
			return err
		}
		set, err := kbuild.ParseManifest(text)
		if err == nil {
			sets = append(sets, set)
		}
		return err
	})
	return sets, err
}
