package main

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/recipe"
)

// run plans and builds the images, and publishes them or prints their recipes.
func (b *build) run(ctx context.Context, a *session.App, s *session.Session) error {
	o := b.flags
	s.Builder.Signer = b.signer
	if b.pushed != "" && !o.dryRun {
		err := s.Builder.Registry.CheckPush(ctx, b.pushed)
		if err != nil {
			return err
		}
	}
	recipes, planErr := b.recipes(ctx, s)
	if len(recipes) == 0 {
		return planErr
	}
	tags := images.ByTag(recipes, func(r *recipe.Recipe) string { return r.Tag })
	zstd := recipes[0].Compression == recipe.Zstd
	err := o.output.CheckContent(len(tags), len(tags[0]), zstd)
	if err != nil {
		return err
	}
	if o.dryRun {
		return errors.Join(planErr, printRecipes(a, recipes))
	}
	o.layers.Attach(ctx, s, len(o.output.Places) > 0)
	b.documents.Finished = s.Builder.Finished
	closeRunner := o.runners.Attach(s)
	err = eachTag(ctx, a.Jobs/2, tags, planErr, func(recipes []*recipe.Recipe) error {
		return b.publish(ctx, a, s, recipes)
	})
	return errors.Join(err, closeRunner())
}

// eachTag does the work for the images of each tag, of several tags at a time, and returns the errors
// of all, with those of the plan.
func eachTag(
	ctx context.Context,
	jobs int,
	tags [][]*recipe.Recipe,
	planErr error,
	work func([]*recipe.Recipe) error,
) error {
	errs := images.Parallel(ctx, jobs, len(tags), func(i int) error { return work(tags[i]) })
	var failed images.Failures
	failed.AddAll(planErr)
	for i, err := range errs {
		failed.Add(tags[i][0].Tag, err)
	}
	done := len(slices.DeleteFunc(errs, func(err error) bool { return err != nil }))
	return failed.Err(done)
}

// recipes returns the recipe of --recipe, or those that the request is planned into.
func (b *build) recipes(ctx context.Context, s *session.Session) ([]*recipe.Recipe, error) {
	if b.recipe == nil {
		return s.Builder.Plan(ctx, b.request)
	}
	sources := b.request.Options
	err := s.Builder.Localize(b.recipe, sources.Base, sources.Source)
	if err != nil {
		return nil, err
	}
	return []*recipe.Recipe{b.recipe}, nil
}

// printRecipes prints recipes as JSON.
func printRecipes(a *session.App, recipes []*recipe.Recipe) error {
	for _, r := range recipes {
		text, err := json.MarshalIndent(r.Public(), "", "  ")
		if err != nil {
			return err
		}
		a.Result(string(text))
	}
	return nil
}

// publish builds the images of a tag, one an architecture, and publishes them as one artifact.
func (b *build) publish(
	ctx context.Context,
	a *session.App,
	s *session.Session,
	recipes []*recipe.Recipe,
) error {
	built := make([]v1.Image, len(recipes))
	eg, ectx := errgroup.WithContext(ctx)
	for i, r := range recipes {
		eg.Go(func() (err error) {
			built[i], err = s.Builder.Build(ectx, r)
			if err != nil {
				return s.Builder.ExplainLocked(ctx, b.request, r, err)
			}
			return nil
		})
	}
	err := eg.Wait()
	if err != nil {
		return err
	}
	artifact, err := images.Combine(built)
	if err != nil {
		return err
	}
	publication := b.publication
	publication.Tags = append([]string{recipes[0].Tag}, recipes[0].Aliases...)
	if !b.documents.Empty() {
		layers := s.Builder.Layers()
		publication.Documents, err = b.documents.Documents(ctx, layers, artifact, built, recipes)
		if err != nil {
			return err
		}
	}
	o := b.flags
	err = o.layers.Complete(ctx, s, b.pushed, built)
	if err != nil {
		return err
	}
	err = o.output.Publish(ctx, a, s, artifact, publication)
	if err != nil {
		return err
	}
	return o.layers.Publish(ctx, s, b.pushed, artifact, built, publication)
}
