package attestation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/description"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/images/verify"
)

// named is how many files that differ are named.
const named = 20

// compareInputs says which inputs were not those that the recipe states: this machine has its own.
func compareInputs(stated, used *recipe.Recipe) (all []string) {
	if was, is := stated.Builder.Version, used.Builder.Version; was != is {
		all = append(
			all,
			fmt.Sprintf(
				"driver-build was %.80q, now it is %q: use the release that built the image",
				was,
				is,
			),
		)
	}
	for _, p := range stated.Entrypoint {
		n := slices.IndexFunc(
			used.Entrypoint,
			func(q recipe.Binary) bool { return q.Name == p.Name },
		)
		switch {
		case n < 0:
			all = append(
				all,
				fmt.Sprintf("program %.80s was sha256:%s, now there is none", p.Name, p.SHA256),
			)
		case used.Entrypoint[n].SHA256 != p.SHA256:
			all = append(
				all,
				fmt.Sprintf(
					"program %s was sha256:%s, now it is sha256:%s",
					p.Name,
					p.SHA256,
					used.Entrypoint[n].SHA256,
				),
			)
		}
	}
	return all
}

// compareImages says in words in what an image is not its rebuild: fields of the configuration,
// layers, and the files of each layer that differs.
func compareImages(
	ctx context.Context,
	cache layer.Cache,
	image, rebuilt v1.Image,
) (all []string, err error) {
	config, errIs := image.RawConfigFile()
	again, errAgain := rebuilt.RawConfigFile()
	layers, errLayers := image.Layers()
	others, errOthers := rebuilt.Layers()
	err = errors.Join(errIs, errAgain, errLayers, errOthers)
	if err != nil {
		return nil, err
	}
	all, err = verify.ConfigDifferences(again, config)
	if err != nil {
		return nil, err
	}
	if len(layers) != len(others) {
		all = append(all, fmt.Sprintf("it has %d layers, the rebuild %d", len(layers), len(others)))
	}
	names := oci.LayerNames(image)
	for i := range min(len(layers), len(others)) {
		digest, err := layers[i].Digest()
		if err != nil {
			return nil, err
		}
		if names[digest] == description.LayerName && len(all) > 0 {
			continue // it follows from the others
		}
		found, err := compareLayers(ctx, cache, layers[i], others[i])
		if err != nil {
			return nil, fmt.Errorf("layer %d: %w", i+1, err)
		}
		for _, text := range found {
			all = append(all, fmt.Sprintf("layer %d (%s): %s", i+1, names[digest], text))
		}
	}
	return all, nil
}

// compareLayers says in words in what a layer is not another one.
func compareLayers(
	ctx context.Context,
	cache layer.Cache,
	is, again v1.Layer,
) (all []string, err error) {
	same, err := equalDigests(v1.Layer.Digest, is, again)
	if err != nil || same {
		return nil, err
	}
	same, err = equalDigests(v1.Layer.DiffID, is, again)
	if err != nil {
		return nil, err
	}
	if same {
		return []string{"is compressed otherwise"}, nil
	}
	spool, err := rootfs.NewSpool(cache.Store.Dir())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, spool.Close()) }()
	var files [2]map[string]string
	for n, l := range []v1.Layer{is, again} {
		tree := rootfs.New(spool, nil)
		err = layer.Apply(ctx, tree, l, nil, progress.Quiet(), "")
		if err != nil {
			return nil, err
		}
		files[n], err = describeFiles(tree)
		if err != nil {
			return nil, err
		}
	}
	return compareFiles(files[0], files[1]), nil
}

func equalDigests(of func(v1.Layer) (v1.Hash, error), a, b v1.Layer) (bool, error) {
	one, err := of(a)
	if err != nil {
		return false, err
	}
	other, err := of(b)
	return one == other, err
}

// describeFiles says of each path of a tree what it is.
func describeFiles(tree *rootfs.Tree) (map[string]string, error) {
	all := map[string]string{}
	for _, e := range tree.All() {
		text := e.String()
		if e.Kind == rootfs.File {
			sum, err := e.SHA256()
			if err != nil {
				return nil, fmt.Errorf("/%s: %w", e.Path, err)
			}
			text += " sha256:" + sum
		}
		all[e.Path] = text
	}
	return all, nil
}

// compareFiles says which paths differ, and names at most some of them.
func compareFiles(is, again map[string]string) (all []string) {
	paths := maps.Clone(is)
	maps.Copy(paths, again)
	for _, p := range slices.Sorted(maps.Keys(paths)) {
		switch {
		case is[p] == again[p]:
		case again[p] == "":
			all = append(all, fmt.Sprintf("/%s is not in the rebuild", p))
		case is[p] == "":
			all = append(all, fmt.Sprintf("/%s of the rebuild is missing", p))
		default:
			all = append(all, fmt.Sprintf("/%s is %s, not %s", p, is[p], again[p]))
		}
	}
	switch n := len(all); {
	case n == 0:
		return []string{"the files are the same: they have other times or another order"}
	case n > named:
		all = append(all[:named], fmt.Sprintf("%d more files", n-named))
	}
	return all
}

// compareIndex compares an index with one of the same images.
func compareIndex(want v1.Hash, same []v1.Image) (verify.Finding, error) {
	again, err := images.Combine(same)
	if err != nil {
		return verify.Finding{}, err
	}
	digest, err := again.Digest()
	if digest != want {
		return finding(
			verify.Error,
			rebuildRule,
			"%s: its images are the same, but the index of them is %s: it has other annotations or other entries besides, or another order",
			want,
			digest,
		), err
	}
	return finding(
		verify.Note,
		rebuildRule,
		"%s: the index of these images has the same digest",
		want,
	), err
}
