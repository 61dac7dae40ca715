package attestation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/inventory"
	"github.com/driver-container/driver-container/images/layer"
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
		all = append(all, fmt.Sprintf("driver-build was %.80q, now it is %q: use the release that built the image", was, is))
	}
	for _, p := range stated.Entrypoint {
		n := slices.IndexFunc(used.Entrypoint, func(q recipe.Binary) bool { return q.Name == p.Name })
		switch {
		case n < 0:
			all = append(all, fmt.Sprintf("program %.80s was sha256:%s, now there is none", p.Name, p.SHA256))
		case used.Entrypoint[n].SHA256 != p.SHA256:
			all = append(all, fmt.Sprintf("program %s was sha256:%s, now it is sha256:%s", p.Name, p.SHA256, used.Entrypoint[n].SHA256))
		}
	}
	return all
}

// compareImages says in words in what an image is not its rebuild.
func compareImages(ctx context.Context, store *fetch.Store, image, rebuilt v1.Image) ([]string, error) {
	is, errA := image.RawConfigFile()
	again, errB := rebuilt.RawConfigFile()
	if err := errors.Join(errA, errB); err != nil {
		return nil, err
	}
	all, err := verify.ConfigDifferences(again, is)
	if err != nil {
		return nil, err
	}
	here, errA := filesOf(ctx, store, image)
	there, errB := filesOf(ctx, store, rebuilt)
	if err := errors.Join(errA, errB); err != nil {
		return nil, err
	}
	paths := maps.Clone(here)
	maps.Copy(paths, there)
	var files []string
	for _, p := range slices.Sorted(maps.Keys(paths)) {
		f, ok := here[p]
		g, also := there[p]
		switch d := g.Differences(f); {
		case !also:
			files = append(files, fmt.Sprintf("/%s is not in the rebuild", p))
		case !ok:
			files = append(files, fmt.Sprintf("/%s of the rebuild is missing", p))
		case len(d) > 0:
			files = append(files, fmt.Sprintf("/%s %s", p, strings.Join(d, ", ")))
		}
	}
	switch n := len(files); {
	case n == 0:
		all = append(all, "the files are the same: the layers have other times, another order, or are compressed otherwise")
	case n > named:
		files = append(files[:named], fmt.Sprintf("%d more files", n-named))
	}
	return append(all, files...), nil
}

// filesOf are the files of an image by their paths.
func filesOf(ctx context.Context, store *fetch.Store, img v1.Image) (map[string]inventory.File, error) {
	spool, err := rootfs.NewSpool(store.Dir())
	if err != nil {
		return nil, err
	}
	defer func() { _ = spool.Close() }() // nothing to lose: the file has no name
	tree, err := layer.Flatten(ctx, img, spool, nil, progress.Quiet())
	if err != nil {
		return nil, err
	}
	list, err := inventory.Of(tree)
	files := map[string]inventory.File{}
	for _, f := range list {
		files[f.Path] = f
	}
	return files, err
}

// compareIndex compares an index with one of the same images.
func compareIndex(want v1.Hash, same []v1.Image) (verify.Finding, error) {
	again, err := images.Combine(same)
	if err != nil {
		return verify.Finding{}, err
	}
	digest, err := again.Digest()
	if digest != want {
		return finding(verify.Error, "%s: its images are the same, but the index of them is %s: it has other annotations or other entries besides, or another order",
			want, digest), err
	}
	return finding(verify.Note, "%s: the index of these images has the same digest", want), err
}
