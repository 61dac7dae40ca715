package attestation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/inventory"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
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

// compareImages says in words in what an image is not its rebuild.
func compareImages(
	ctx context.Context,
	cache layer.Cache,
	image, rebuilt v1.Image,
) (all []string, err error) {
	var configs [2][]byte
	files := map[string][2]inventory.File{} // of both by path; without a path: it is missing there
	for n, img := range []v1.Image{image, rebuilt} {
		layers, errA := img.Layers()
		config, errB := img.RawConfigFile()
		if err := errors.Join(errA, errB); err != nil {
			return nil, err
		}
		list, err := inventory.Of(ctx, cache, layers, progress.Quiet())
		if err != nil {
			return nil, err
		}
		for _, f := range list {
			both := files[f.Path]
			both[n] = f
			files[f.Path] = both
		}
		configs[n] = config
	}
	all, err = verify.ConfigDifferences(configs[1], configs[0])
	if err != nil {
		return nil, err
	}
	var wrong []string
	for _, p := range slices.Sorted(maps.Keys(files)) {
		is := files[p][0]
		again := files[p][1]
		if again.Path == "" {
			wrong = append(wrong, fmt.Sprintf("/%s is not in the rebuild", p))
		} else if is.Path == "" {
			wrong = append(wrong, fmt.Sprintf("/%s of the rebuild is missing", p))
		} else if d := again.Differences(is); len(d) > 0 {
			wrong = append(wrong, fmt.Sprintf("/%s %s", p, strings.Join(d, ", ")))
		}
	}
	switch n := len(wrong); {
	case n == 0:
		all = append(
			all,
			"the files are the same: the layers have other times, another order, or are compressed otherwise",
		)
	case n > named:
		wrong = append(wrong[:named], fmt.Sprintf("%d more files", n-named))
	}
	return append(all, wrong...), nil
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
