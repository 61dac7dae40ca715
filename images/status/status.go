// Package status asks about many images without building one: which are due, which could be built, what the
// registry has of them, which kernels there are, and what a lock is to say.
//
// Images share bases, package repositories and most packages, so each question is asked once for all of them.
// The package prints nothing and knows no flags and no exit codes: these are the command's.
package status

import (
	"context"

	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/memo"
	"github.com/driver-container/driver-container/images/recipe"
)

// survey asks registries, package repositories and servers about many images, each question once.
type survey struct {
	plans  *batch.Plans
	online *images.Builder
	bases  memo.Memo[string] // digest, by reference and architecture
	sizes  memo.Memo[int64]  // by address
}

// newSurvey starts a survey for one call.
func newSurvey(b *images.Builder) (*survey, error) {
	plans, err := batch.NewPlans(b)
	return &survey{plans: plans, online: b}, err
}

// find finds the pins of an image, as a lock has them.
func (s *survey) find(ctx context.Context, im batch.Image) (recipe.Pins, error) {
	pins, err := s.plans.Find(ctx, im)
	return pins.Public(), err
}

// recipe is what an image is made from now, with the programs of the builder.
func (s *survey) recipe(ctx context.Context, im batch.Image) (*recipe.Recipe, error) {
	pins, err := s.find(ctx, im)
	if err != nil {
		return nil, err
	}
	return s.online.Recipe(im.Target, im.Plan, pins)
}
