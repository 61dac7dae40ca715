package rebuild

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/packages"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/images/verify"
)

// named is how many files of a layer are named, and packages of an image.
const named = 10

// compareIndex compares an index with one of the same images.
func compareIndex(want v1.Hash, same []v1.Image) (verify.Finding, error) {
	again, err := images.Combine(same)
	if err != nil {
		return verify.Finding{}, err
	}
	digest, err := again.Digest()
	if err != nil {
		return verify.Finding{}, err
	}
	if digest != want {
		return problem("%s: its images are the same, but the index of them is %s: it has other annotations or other entries besides, or another order", want, digest), nil
	}
	return verify.Finding{Severity: verify.Note, Rule: Rule, Message: fmt.Sprintf("%s: the index of these images has the same digest", want)}, nil
}

// compareImages says in words in what an image is not its rebuild.
func compareImages(ctx context.Context, cache layer.Cache, image, rebuilt v1.Image) ([]string, error) {
	a, b, err := both(image, rebuilt, v1.Image.RawConfigFile)
	if err != nil {
		return nil, err
	}
	m, n, err := both(image, rebuilt, v1.Image.Manifest)
	if err != nil {
		return nil, err
	}
	all, err := verify.ConfigDifferences(b, a)
	if err != nil {
		return nil, err
	}
	all = append(all, compareWords("annotation", m.Annotations, n.Annotations)...)
	inPackages, err := comparePackages(ctx, cache, image, rebuilt)
	if err != nil {
		return nil, err
	}
	inLayers, err := compareLayers(ctx, cache, image, rebuilt)
	if all = slices.Concat(all, inPackages, inLayers); err == nil && len(all) == 0 {
		all = []string{"the documents of the image are written otherwise; its settings and layers are the same"}
	}
	return all, err
}

func both[T, V any](image, rebuilt T, f func(T) (V, error)) (a, b V, err error) {
	a, errA := f(image)
	b, errB := f(rebuilt)
	return a, b, errors.Join(errA, errB)
}

// compareWords compares by name.
func compareWords(what string, image, rebuilt map[string]string) (all []string) {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(image)), maps.Keys(rebuilt))
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		is, here := image[key]
		again, there := rebuilt[key]
		switch {
		case !there:
			all = append(all, fmt.Sprintf("%s %q is %.200q, the rebuild has none", what, key, is))
		case !here:
			all = append(all, fmt.Sprintf("%s %q is missing, the rebuild has %.200q", what, key, again))
		case is != again:
			all = append(all, fmt.Sprintf("%s %q is %.200q, in the rebuild %.200q", what, key, is, again))
		}
	}
	return all
}

// comparePackages compares the packages that are recorded as installed.
func comparePackages(ctx context.Context, cache layer.Cache, image, rebuilt v1.Image) ([]string, error) {
	a, b, err := both(image, rebuilt, func(img v1.Image) (map[string]string, error) {
		spool, err := rootfs.NewSpool(cache.Store.Dir())
		if err != nil {
			return nil, err
		}
		defer func() { _ = spool.Close() }() // nothing to lose: the file has no name
		tree, err := layer.Flatten(ctx, img, spool, packages.IsDatabase, progress.Observer(nil).Begin("", ""))
		if err != nil {
			return nil, err
		}
		installed, err := packages.InstalledIn(tree)
		versions := map[string]string{}
		for _, p := range installed {
			versions[p.Name+" "+p.Arch] = strings.TrimSpace(versions[p.Name+" "+p.Arch] + " " + p.Version)
		}
		return versions, err
	})
	return cut(compareWords("package", a, b), "packages"), err
}

// cut keeps the first lines of a list, and says how many there are more.
func cut(lines []string, what string) []string {
	if len(lines) <= named {
		return lines
	}
	return append(slices.Clone(lines[:named]), fmt.Sprintf("%d more %s", len(lines)-named, what))
}
