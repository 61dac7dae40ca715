package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/distros/textfile"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/attestation"
	"github.com/driver-container/driver-container/images/documents"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/programs"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/kmod/sign"
)

// buildFlags are the flags of the main command.
type buildFlags struct {
	request     flags.Request
	policy      flags.Policy
	output      flags.Output
	dryRun      bool
	recipe      string // FILE
	runners     flags.Runners
	signer      flags.Signer
	imageSigner flags.ImageSigner
	record      flags.Record
	layers      flags.LayerCache
	public      flags.PublicRegistry
}

// build is what the flags ask for, checked.
type build struct {
	flags   *buildFlags
	request images.Request
	recipe  *recipe.Recipe      // of --recipe, in place of what the request means
	mirrors map[string][]string // of registries, in the matrix
	pushed  string              // the repository that images are pushed to; "": none
	signer  *sign.Signer        // of modules; nil: they stay unsigned
	// what images get, without tags and documents
	publication attestation.Publication
	documents   attestation.BuildDocuments
}

// buildCommand is the command that builds, under a name.
func buildCommand(a *session.App, name string) *cobra.Command {
	var o buildFlags
	cmd := &cobra.Command{
		Use:  name + " --os SYSTEM --driver VERSION",
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), a) },
	}
	f := cmd.Flags()
	o.request.Targets.AddTo(f)
	o.request.Sources.AddTo(f)
	o.request.Sources.AddSourceTo(f)
	o.request.Kernels.AddTo(f)
	o.request.Profile.AddTo(f)
	o.request.Lock.AddTo(f)
	o.request.Repository.AddTo(f, "push to")
	o.policy.AddTo(f)
	session.Choice(
		f,
		&o.request.Compression,
		"compression",
		"of the layers; auto is zstd, but gzip for old systems, --kmm and docker-archive",
		"auto",
		string(recipe.Gzip),
		string(recipe.Zstd),
	)
	o.output.AddTo(f, "push to the repository, tagged <driver>-<os>")
	f.BoolVar(&o.dryRun, "dry-run", false, "print the recipes as JSON and build nothing")
	f.StringVar(&o.recipe, "recipe", "", "`FILE` with a recipe, as --dry-run prints it, or a provenance: build it again, instead of images of the matrix")
	o.runners.AddTo(f)
	o.signer.AddTo(f)
	o.imageSigner.AddTo(f)
	o.record.AddTo(f)
	o.layers.AddTo(f)
	o.public.AddTo(f)
	return cmd
}

// maxRecipe bounds the file of --recipe, in bytes: a provenance is the longest that it can be.
const maxRecipe = 16 << 20

func (o *buildFlags) run(ctx context.Context, a *session.App) error {
	b, err := o.check(ctx, a)
	if err != nil {
		return err
	}
	o.output.Announce(a, o.dryRun)
	find := a.Programs(ctx, &programs.Finder{})
	err = programs.Check(find, b.request.Targets)
	if err != nil {
		return err
	}
	s, err := a.Open(ctx, b.mirrors, find)
	if err != nil {
		return err
	}
	return s.Close(ctx, b.run(ctx, a, s))
}

// check turns the flags into a request, and finds mistakes in it. It asks no server and writes
// nothing.
func (o *buildFlags) check(ctx context.Context, a *session.App) (*build, error) {
	b := &build{flags: o}
	err := b.choose(a)
	if err != nil {
		return nil, err
	}
	targets := b.request.Targets
	for _, t := range targets {
		for _, rule := range t.Overridden {
			a.Warnings(t.Tag() + " " + t.Arch + ": built although " + rule)
		}
	}
	if o.output.Push && o.output.Repository == "" {
		return nil, session.Usagef("--push: give --repository REGISTRY/PATH, DRIVER_BUILD_REPOSITORY " +
			"in the environment, or defaults.repository in the matrix")
	}
	if o.output.Push {
		b.pushed = o.output.Repository
	}
	err = errors.Join(
		o.output.Parse(o.dryRun),
		o.runners.Check(ctx, a.Getenv),
		o.signer.Check(o.request.Kernels.Compile() || o.recipe != ""),
		o.request.Kernels.CheckKey(o.signer.Key),
		o.public.CheckTargets(targets, b.pushed, o.layers.To),
		o.imageSigner.Check(false),
	)
	if err != nil {
		return nil, err
	}
	err = b.checkSigning(a)
	if err != nil {
		return nil, err
	}
	if b.recipe == nil {
		err = b.openLock()
		if err != nil {
			return nil, err
		}
	}
	compression := &b.request.Options.Compression
	if *compression == "" && o.output.Docker() {
		*compression = recipe.Gzip
	}
	// at least: there is a tag for each kernel
	tags := images.ByTag(targets, matrix.Target.Tag)
	zstd := *compression == recipe.Zstd || b.recipe != nil && b.recipe.Compression == recipe.Zstd
	err = o.output.CheckContent(len(tags), len(tags[0]), zstd)
	if err != nil {
		return nil, err
	}
	flags.WarnOfFabric(a, targets, o.request.Targets.Selection)
	return b, o.policy.Report(a, targets, true)
}

// choose finds the targets: those that the flags select of the matrix, or the one of the recipe.
func (b *build) choose(a *session.App) error {
	o := b.flags
	if o.recipe != "" {
		return b.readRecipe(a)
	}
	m, err := o.request.Targets.Load(a)
	if err != nil {
		return err
	}
	b.mirrors = m.Defaults.Mirrors
	o.output.Repository, err = o.request.Repository.Find(a, m.Defaults)
	if err != nil {
		return err
	}
	b.request, err = o.request.Images(a, m)
	return err
}

// readRecipe reads the recipe of --recipe, which takes the place of a selection.
func (b *build) readRecipe(a *session.App) error {
	o := b.flags
	s := o.request.Targets.Selection
	selects := len(s.Systems)+len(s.Drivers)+len(s.Archs)+len(s.Flavours) > 0 || s.All
	if selects || o.request.Profile.Name != "" || o.request.Lock.File != "" ||
		o.request.Sources.Mirror != "" || o.request.Kernels.Compile() {
		return session.Usagef("--recipe says what is built: leave out what selects images (--os, " +
			"--driver, --arch, --flavour, --all, --kernel), --profile, --lock and --mirror")
	}
	text, err := textfile.Read(o.recipe, maxRecipe)
	if err != nil {
		return session.Usagef("--recipe %s: %w", o.recipe, err)
	}
	r, err := documents.ReadRecipe(text)
	if err != nil {
		return session.Usagef("--recipe %s: %w", o.recipe, err)
	}
	b.recipe = r
	defaults := matrix.Defaults{Profile: string(r.Profile)}
	o.output.Repository, err = o.request.Repository.Find(a, defaults)
	if err != nil {
		return err
	}
	b.request, err = o.request.WithoutTargets(a, defaults)
	if err != nil {
		return err
	}
	b.request.Targets = []matrix.Target{{
		System:   matrix.System{ID: r.System},
		Driver:   matrix.Driver{Version: r.Driver, Branch: r.Branch, VGPU: r.VGPU},
		Arch:     r.Arch,
		Distro:   r.Distro,
		Flavours: r.Flavours,
	}}
	return nil
}

// checkSigning loads the keys that sign modules and images, and finds what cannot be done with them.
func (b *build) checkSigning(a *session.App) (err error) {
	o := b.flags
	b.documents, err = o.record.Check(a.Getenv, o.imageSigner.Signs())
	if err != nil {
		return err
	}
	b.documents.Repository = o.output.Repository
	b.publication.Format = o.imageSigner.Format
	if o.imageSigner.Signs() || !b.documents.Empty() {
		err = o.output.CheckAttached(o.imageSigner.Signs(), b.publication.Format)
		if err != nil {
			return err
		}
	}
	b.signer, err = o.signer.Load(a)
	if err != nil {
		return err
	}
	b.publication.Signer, err = o.imageSigner.Load(a)
	if err != nil {
		return err
	}
	fingerprint := ""
	if b.signer != nil {
		b.request.Options.Signer = b.signer.Certificate
		fingerprint = sign.Fingerprint(b.signer.Certificate.Raw)
	}
	if b.recipe != nil && b.recipe.Signer != fingerprint {
		return session.Usagef("--recipe: its modules are signed by the key of the certificate with the "+
			"SHA-256 %q, and this build signs with %q: give its --module-key, or check the image with "+
			"driver-build verify --rebuild, which takes the signatures over", b.recipe.Signer, fingerprint)
	}
	return o.layers.Check(b.pushed, a.Offline, b.signer != nil, b.publication.Signer)
}

// openLock reads the lock, which a provenance names.
func (b *build) openLock() error {
	err := b.flags.request.OpenLock(&b.request)
	if err != nil || b.request.Lock == nil {
		return err
	}
	b.documents.Run.Lock = documents.Resource{
		Name:   filepath.Base(b.request.Lock.File),
		Digest: map[string]string{"sha256": b.request.Lock.SHA256},
	}
	return nil
}
