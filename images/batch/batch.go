// Package batch builds many images: the targets that a selection of the matrix gives, by tag, with their
// kernels, and with their pins where there is a lock.
//
// A [Batch] is what one call asks for. The package prints nothing and knows no flags and no exit codes: these
// are the command's. How one image is planned and made is the business of package images; package survey
// asks what is built of a batch, and what could be built.
package batch

import (
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
)

// ErrSomeFailed says that of several targets some failed; the errors of these targets are beside it.
var ErrSomeFailed = failure.New(failure.Some, "some targets failed")

// Batch is what one call asks for: targets of the matrix, and what is asked of each of them.
type Batch struct {
	Selection  matrix.Selection
	Targets    []matrix.Target // what the selection gives
	Plan       recipe.Options  // of every image, without its kernels
	Kernels    Kernels         // to compile modules for ahead of time
	Repository string          // where images are looked for; "": no registry is asked
	Lock       *Lock           // what images are made from; nil: the repositories decide
	Given      Given
}

// Given are values of flags as the user gave them. Commands that are proposed to the user, or that a pipeline
// is to run, repeat them.
type Given struct {
	MatrixFile, LockFile, Profile string
	AllowMissing                  bool // --allow-missing-programs
	CAFile                        string
	Insecure                      bool     // --insecure-registry
	Mirrors                       []string // --registry-mirror
}

// Image is one image to plan or to build.
type Image struct {
	Target matrix.Target
	Plan   recipe.Options
	Pins   *recipe.Pins // of the lock; nil: a plan finds them
	// Recipe is what is built, if it is known as a whole. Of the target, only what it names counts.
	Recipe *recipe.Recipe

	words []string // of the lock that mean its kernels
}

// Tag is the tag that the image gets.
func (im Image) Tag() string {
	tag, _ := im.tags()
	return tag
}

// tags are the tag and its aliases.
func (im Image) tags() (tag string, aliases []string) {
	if len(im.Plan.Kernels) > 0 && !im.Plan.Together {
		return recipe.KernelTags(im.Target, im.Plan.Kernels[0])
	}
	return im.Target.Tag(), recipe.AliasTags(im.Target)
}

// Group is the images that share a tag: a single one, or those of an index, which has one for each
// architecture.
type Group struct {
	Tag     string
	Aliases []string // further tags of the same
	Images  []Image
}

func groupByTag(all []Image) []Group {
	var groups []Group
	position := map[string]int{}
	for _, im := range all {
		tag, aliases := im.tags()
		i, ok := position[tag]
		if !ok {
			i = len(groups)
			position[tag] = i
			groups = append(groups, Group{Tag: tag, Aliases: aliases})
		}
		groups[i].Images = append(groups[i].Images, im)
	}
	return groups
}

// NeedsIndex says whether the indexes of the package repositories have to be read to know which kernels are
// meant.
func (b *Batch) NeedsIndex() bool { return b.Lock == nil && b.Kernels.NeedsIndex() }

// Groups gives the images of the batch by tag, with their pins where there is a lock. list gives the kernels
// that the repositories of a target offer; it is only called when NeedsIndex is true, and may be nil
// otherwise.
func (b *Batch) Groups(list ListKernels) ([]Group, error) {
	all, err := b.images(list)
	return groupByTag(all), err
}

func (b *Batch) images(list ListKernels) ([]Image, error) {
	if b.Lock != nil {
		return b.lockedImages()
	}
	return b.Expand(b.Targets, &b.Kernels, list)
}
