package main

import (
	"context"
	"errors"
	"io/fs"

	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
)

// imageState is how an image in the registry compares with the one that a build would make now.
type imageState string

const (
	imageCurrent imageState = "current"
	imageMissing imageState = "missing"
	imageOld     imageState = "out of date"
	imagePresent imageState = "present" // there is nothing to compare it with
	imageUnknown imageState = "unknown" // the registry did not say
)

// stateOf is an answer about one image.
type stateOf struct {
	State imageState           `json:"state"`
	Why   string               `json:"why,omitempty"` // on one line; "" when current
	Found registry.Description `json:"-"`             // zero when missing or unknown
	Err   error                `json:"-"`             // of unknown
}

// imageState asks the registry for the image of one architecture and compares it with a recipe, by what the image says that it
// was made from. Without a recipe only whether it is there can be said.
func (s *session) imageState(ctx context.Context, ref, arch string, r *recipe.Recipe) stateOf {
	found, err := s.registry.Describe(ctx, ref, arch)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return stateOf{State: imageMissing, Why: "not in the registry"}
	case is[*registry.PlatformError](err):
		return stateOf{State: imageMissing, Why: "in the registry for other architectures only"}
	case err != nil:
		return stateOf{State: imageUnknown, Why: err.Error(), Err: err}
	case r == nil:
		return stateOf{State: imagePresent, Found: found}
	}
	info, err := r.Describe()
	if err != nil {
		return stateOf{State: imageUnknown, Why: err.Error(), Err: err, Found: found}
	}
	if found.Annotations[recipe.LabelContent] == info.ID {
		return stateOf{State: imageCurrent, Found: found}
	}
	return stateOf{State: imageOld, Why: whyOld(found.Annotations, r), Found: found}
}

// whyOld says what differs, as far as the labels tell.
func whyOld(labels map[string]string, r *recipe.Recipe) string {
	base := labels["org.opencontainers.image.base.digest"]
	switch {
	case labels[recipe.LabelContent] == "":
		return "it does not say what it was made from"
	case labels[recipe.LabelDriver] != r.Driver || labels[recipe.LabelSystem] != r.System:
		return "it is of driver " + labels[recipe.LabelDriver] + " for " + labels[recipe.LabelSystem]
	case base != r.Base.Digest:
		return "its base is " + short(base) + ", now " + short(r.Base.Digest)
	case labels[recipe.LabelProfile] != string(r.Profile):
		return "its profile is " + labels[recipe.LabelProfile] + ", now " + string(r.Profile)
	case labels[recipe.LabelSigner] != r.Signer:
		return "its modules are signed by another key, or not at all"
	}
	return "other packages, options or driver-build"
}

func short(digest string) string {
	if len(digest) > 19 {
		return digest[:19]
	}
	return digest
}
