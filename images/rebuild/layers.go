package rebuild

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/inventory"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/rootfs"
)

// namedLayer is a layer and what its image's history says of it.
type namedLayer struct {
	v1.Layer
	name           string
	digest, diffID v1.Hash
}

func layersOf(img v1.Image) (all []namedLayer, err error) {
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	layers, err := img.Layers()
	if err != nil {
		return nil, err
	}
	histories, _ := layer.Histories(config, len(layers))
	for i, l := range layers {
		n := namedLayer{Layer: l, name: histories[i].CreatedBy}
		if _, ours, ok := strings.Cut(n.name, ": "); ok && strings.HasPrefix(n.name, "driver-build ") {
			n.name = ours
		}
		n.name = cmp.Or(n.name, fmt.Sprintf("%d of %d", i+1, len(layers)))
		var errA, errB error
		n.digest, errA = l.Digest()
		n.diffID, errB = l.DiffID()
		if err := errors.Join(errA, errB); err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}

// compareLayers compares layers by their names in the history.
func compareLayers(ctx context.Context, cache layer.Cache, image, rebuilt v1.Image) (all []string, err error) {
	a, b, err := both(image, rebuilt, layersOf)
	if err != nil {
		return nil, err
	}
	isIn := func(list []namedLayer) func(namedLayer) bool {
		return func(l namedLayer) bool {
			return slices.ContainsFunc(list, func(o namedLayer) bool { return o.digest == l.digest })
		}
	}
	onlyA, onlyB := slices.DeleteFunc(slices.Clone(a), isIn(b)), slices.DeleteFunc(slices.Clone(b), isIn(a))
	for _, l := range onlyA {
		i := slices.IndexFunc(onlyB, func(o namedLayer) bool { return o.name == l.name })
		if i < 0 {
			all = append(all, fmt.Sprintf("layer %.200q (%s) is not in the rebuild", l.name, l.digest))
			continue
		}
		lines, err := compareLayer(ctx, cache, l, onlyB[i])
		if err != nil {
			return nil, fmt.Errorf("compare the layer %.200q: %w", l.name, err)
		}
		all, onlyB = append(all, lines...), slices.Delete(onlyB, i, i+1)
	}
	for _, l := range onlyB {
		all = append(all, fmt.Sprintf("layer %.200q (%s) of the rebuild is missing", l.name, l.digest))
	}

	if len(all) == 0 && !slices.EqualFunc(a, b, func(x, y namedLayer) bool { return x.digest == y.digest }) {
		all = append(all, "the layers are in another order, or one is there several times")
	}
	return all, nil
}

// compareLayer says in what a layer is not that of the rebuild, file by file.
func compareLayer(ctx context.Context, cache layer.Cache, a, b namedLayer) ([]string, error) {
	head := fmt.Sprintf("layer %.200q is %s, in the rebuild %s", a.name, a.digest, b.digest)
	if a.diffID == b.diffID {
		return []string{head + ": the content is the same, and compressed otherwise"}, nil
	}
	x, y, err := both(a, b, func(l namedLayer) (map[string]inventory.File, error) { return filesOf(ctx, cache, l) })
	if err != nil {
		return nil, err
	}
	var lines []string
	paths := maps.Clone(x)
	maps.Copy(paths, y)
	for _, p := range slices.Sorted(maps.Keys(paths)) {
		is, here := x[p]
		again, there := y[p]
		switch {
		case !there:
			lines = append(lines, fmt.Sprintf("layer %.200q: /%s is not in the rebuild", a.name, p))
		case !here:
			lines = append(lines, fmt.Sprintf("layer %.200q: /%s of the rebuild is missing", a.name, p))
		default:
			if d := again.Differences(is); len(d) > 0 {
				lines = append(lines, fmt.Sprintf("layer %.200q: /%s %s", a.name, p, strings.Join(d, ", ")))
			}
		}
	}
	if len(lines) == 0 {
		head += ": its files are the same; their times or their order differ"
	}
	return append([]string{head}, cut(lines, "files of the layer "+a.name)...), nil
}

func filesOf(ctx context.Context, cache layer.Cache, l v1.Layer) (map[string]inventory.File, error) {
	spool, err := rootfs.NewSpool(cache.Store.Dir())
	if err != nil {
		return nil, err
	}
	defer func() { _ = spool.Close() }() // nothing to lose: the file has no name
	tree, err := cache.Outline(ctx, []v1.Layer{l}, spool, progress.Observer(nil).Begin("", ""))
	if err != nil {
		return nil, err
	}
	files := map[string]inventory.File{}
	for _, e := range tree.All() {
		f, err := inventory.FileOf(e)
		if err != nil {
			return nil, err
		}
		files[f.Path] = f
	}
	return files, nil
}
