// Package status asks about many images without building one: which are due, which could be built,
// what the registry has of them, and which kernels there are.
//
// Images share bases, package repositories and most packages, so each question is asked once for
// all of them. The package prints nothing and knows no flags and no exit codes: these are the
// command's.
package status

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
)

// Query is what is asked about the images of a request.
type Query struct {
	Request    images.Request
	Repository string // where images are looked for; "": no registry is asked
	// Arguments are flags of driver-build that the commands of a pipeline repeat.
	Arguments []string
}

// survey asks registries, package repositories and servers about the images of one call, each
// question once.
type survey struct {
	query   Query
	builder *images.Builder
	bases   layer.Once[string] // digest, by reference and architecture
	sizes   layer.Once[int64]  // by address
}

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

// compare compares the image of a draft with the one that a build would make now. planErr is why
// that is not known; then the state says only whether the image is there.
func (s *survey) compare(ctx context.Context, d *images.Draft) (st ImageState, planErr error) {
	r := d.Recipe
	planErr = s.builder.Complete(ctx, d)
	if planErr != nil {
		return s.state(ctx, r.Tag, r.Arch, nil), planErr
	}
	return s.state(ctx, r.Tag, r.Arch, r), nil
}

// state asks the registry for the image of one architecture and compares it with a recipe, by what
// the image says that it was made from. Without a recipe it only says whether the image is there.
func (s *survey) state(ctx context.Context, tag, arch string, r *recipe.Recipe) ImageState {
	unknown := func(err error) ImageState {
		return ImageState{State: Unknown, Why: oneLine(err.Error()), Err: err}
	}
	found, err := s.builder.Registry.Open(
		ctx,
		s.query.Repository+":"+tag,
		registry.OpenOptions{Arch: arch, Origin: true},
	)
	_, other := errors.AsType[*oci.PlatformError](err)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ImageState{State: Missing, Why: "not in the registry"}
	case other:
		return ImageState{State: Missing, Why: "in the registry for other architectures only"}
	case err != nil:
		return unknown(err)
	case r == nil:
		return ImageState{State: Present, Found: found}
	}
	info, err := r.Describe()
	if err != nil {
		return unknown(err)
	}
	if found.Manifest.Annotations[recipe.LabelContent] == info.ID {
		return ImageState{State: Current, Found: found}
	}
	return ImageState{State: Old, Why: oneLine(whyOld(found.Manifest.Annotations, r)), Found: found}
}

// whyOld says what differs, as far as the labels tell.
func whyOld(labels map[string]string, r *recipe.Recipe) string {
	base := labels[recipe.OCIPrefix+"base.digest"]
	short := func(digest string) string { return digest[:min(len(digest), 19)] }
	switch {
	case labels[recipe.LabelContent] == "":
		return "it does not say what it was made from"
	case labels[recipe.LabelDriver] != r.Driver || labels[recipe.LabelSystem] != r.System:
		return "it is of driver " + labels[recipe.LabelDriver] + " for " + labels[recipe.LabelSystem]
	case base != "" && base != r.Base.Digest:
		return "its base is " + short(base) + ", now " + short(r.Base.Digest)
	case labels[recipe.LabelProfile] != string(r.Profile):
		return "its profile is " + labels[recipe.LabelProfile] + ", now " + string(r.Profile)
	case labels[recipe.LabelSigner] != r.Signer:
		return "its modules are signed by another key, or not at all"
	}
	return "other packages, options or driver-build"
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
