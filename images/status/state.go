package status

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
)

// State is how an image in the registry compares with the image that a build would make now.
type State string

// The states of an image.
const (
	Current State = "current"
	Missing State = "missing"
	Old     State = "out of date"
	Present State = "present" // there is nothing to compare it with
	Unknown State = "unknown" // the registry did not say
)

// ImageState is an answer about one image.
type ImageState struct {
	State State            `json:"state"`
	Why   string           `json:"why,omitempty"` // on one line; "" when current
	Found *registry.Opened `json:"-"`             // nil when missing or unknown
	Err   error            `json:"-"`             // of unknown
}

// state asks the registry for the image of one architecture and compares it with a recipe, by what the image
// says that it was made from. Without a recipe it only says whether the image is there.
func (s *survey) state(ctx context.Context, ref, arch string, r *recipe.Recipe) ImageState {
	found, err := s.online.Registry.Open(ctx, ref, registry.OpenOptions{Arch: arch, Origin: true})
	if errors.Is(err, fs.ErrNotExist) {
		return ImageState{State: Missing, Why: "not in the registry"}
	}
	if _, ok := errors.AsType[*oci.PlatformError](err); ok {
		return ImageState{State: Missing, Why: "in the registry for other architectures only"}
	}
	switch {
	case err != nil:
		return ImageState{State: Unknown, Why: err.Error(), Err: err}
	case r == nil:
		return ImageState{State: Present, Found: found}
	}
	info, err := r.Describe()
	if err != nil {
		return ImageState{State: Unknown, Why: err.Error(), Err: err, Found: found}
	}
	if found.Manifest.Annotations[recipe.LabelContent] == info.ID {
		return ImageState{State: Current, Found: found}
	}
	return ImageState{State: Old, Why: whyOld(found.Manifest.Annotations, r), Found: found}
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

func short(digest string) string { return digest[:min(len(digest), 19)] }

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
