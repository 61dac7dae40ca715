// Package batch builds many images: the targets that a selection of the matrix gives, by tag, with
// their kernels, and with their pins where there is a lock.
//
// A [Batch] is what one call asks for. The package prints nothing and knows no flags and no exit
// codes: these are the command's. How one image is planned and made is the business of package
// images; package status asks what is built of a batch, and what could be built.
package batch

import (
	"strings"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/lockfile"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
)

// ErrSomeFailed says that of several targets some failed; the errors of these targets are beside
// it.
var ErrSomeFailed = failure.New(failure.Some, "some targets failed")

// Batch is what one call asks for: targets of the matrix, and what is asked of each of them.
type Batch struct {
	Selection  matrix.Selection
	Targets    []matrix.Target // what the selection gives
	Plan       recipe.Options  // of every image, without its kernels
	Kernels    Kernels         // to compile modules for ahead of time
	Repository string          // where images are looked for; "": no registry is asked
	Lock       *lockfile.Lock  // what images are made from; nil: the repositories decide
	Given      Given
}

// Given are values of flags as the user gave them. Commands that are proposed to the user, or that
// a pipeline is to run, repeat them.
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
	tag, _ := recipe.Tags(im.Target, im.Plan)
	return tag
}

// lockName is the name of the lock's entry. Modules alone are made from that of the image that has
// them.
func (im Image) lockName() string {
	return lockfile.Name(strings.TrimSuffix(im.Tag(), recipe.ModulesSuffix), im.Target.Arch)
}

// Group is the images that share a tag: a single one, or those of an index, which has one for each
// architecture.
type Group struct {
	Tag     string
	Aliases []string // further tags of the same
	Images  []Image
}

// NeedsIndex says whether the indexes of the package repositories have to be read to know which
// kernels are meant.
func (b *Batch) NeedsIndex() bool { return b.Lock == nil && b.Kernels.NeedsIndex() }

// Groups gives the images of the batch by tag, with their pins where there is a lock. list gives
// the kernels that the repositories of a target offer; it is only called when NeedsIndex is true,
// and may be nil otherwise.
func (b *Batch) Groups(list ListKernels) (groups []Group, err error) {
	var all []Image
	if b.Lock != nil {
		all, err = b.lockedImages()
	}
	for _, t := range b.Targets {
		if b.Lock == nil && err == nil {
			var some []Image
			some, err = b.expand(t, &b.Kernels, list)
			all = append(all, some...)
		}
	}
	if err != nil {
		return nil, err
	}
	position := map[string]int{}
	for _, im := range all {
		tag, aliases := recipe.Tags(im.Target, im.Plan)
		if _, ok := position[tag]; !ok {
			position[tag] = len(groups)
			groups = append(groups, Group{Tag: tag, Aliases: aliases})
		}
		g := &groups[position[tag]]
		g.Images = append(g.Images, im)
	}
	return groups, nil
}

// Arguments gives the named flags with the values of the batch, in the order of the names. A flag
// without a value, and a switch that is off, is left out.
func (b *Batch) Arguments(flags ...string) (words []string) {
	k := &b.Kernels
	switches := map[string]bool{
		"--one-image": k.Together, "--with-toolchain": k.Toolchain, "--no-toolchain": k.Thin, "--with-sources": k.Sources, "--kmm": k.KMM,
		"--allow-incompatible": b.Selection.AllowIncompatible, "--allow-missing-programs": b.Given.AllowMissing,
		"--insecure-registry": b.Given.Insecure, "--no-fabric": b.Selection.NoFabric, "--no-patches": b.Selection.NoPatches,
	}
	values := map[string][]string{
		"--matrix": {
			b.Given.MatrixFile,
		}, "--lock": {b.Given.LockFile}, "--profile": {b.Given.Profile},
		"--base": {
			b.Plan.Base,
		}, "--mirror": {recipe.PublicMirror(b.Plan.Mirror)}, "--repository": {b.Repository},
		"--kernel": k.Specs, "--kernel-from": k.From, "--kernel-flavour": k.Flavours, "--modules": {strings.Join(k.Modules, ",")},
		"--arch": {strings.Join(b.Selection.Archs, ",")}, "--flavour": b.Selection.Flavours,
		"--companions": {
			strings.Join(b.Selection.Companions, ","),
		}, "--ca": {b.Given.CAFile}, "--registry-mirror": b.Given.Mirrors,
	}
	for _, flag := range flags {
		if switches[flag] {
			words = append(words, flag)
		}
		for _, v := range values[flag] {
			if v != "" {
				words = append(words, flag, v)
			}
		}
	}
	return words
}

// lockCommand is the command that locks a section again with the flags of this call.
func (b *Batch) lockCommand(section string) string {
	words := b.Arguments(
		"--matrix",
		"--lock",
		"--arch",
		"--base",
		"--mirror",
		"--flavour",
		"--kernel",
		"--kernel-from",
		"--kernel-flavour",
		"--one-image",
		"--with-toolchain",
		"--no-toolchain",
		"--with-sources",
		"--kmm",
		"--allow-incompatible",
		"--no-fabric",
		"--no-patches",
		"--companions",
	)
	for i, w := range words {
		words[i] = shellWord(w)
	}
	return strings.Join(
		append(append([]string{"driver-build", "lock"}, words...), "--update", section),
		" ",
	)
}

// shellWord quotes a word that a shell would take apart.
func shellWord(s string) string {
	if strings.IndexFunc(s, func(r rune) bool {
		return !strings.ContainsRune("%+,-./:=@_~", r) &&
			(r < '0' || r > '9' && r < 'A' || r > 'Z' && r < 'a' || r > 'z')
	}) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
