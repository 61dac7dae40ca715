package main

import (
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/documents"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/kmod/sign"
)

// maxRecipe bounds the file of --recipe, in bytes: a provenance is the longest that it can be.
const maxRecipe = 16 << 20

// batch is what the flags select of the matrix or, with --recipe, the image of that recipe.
func (o *buildFlags) batch(a *session.App) (m *matrix.Matrix, b batch.Batch, again *recipe.Recipe, err error) {
	if o.recipe == "" {
		m, b, err = o.selection.Batch(a, o.kernels.Specs)
		return m, b, nil, err
	}
	s := &o.selection
	if len(s.Systems)+len(s.Drivers)+len(s.Archs)+len(s.Flavours) > 0 || s.All || o.profile != "" || o.lock != "" || o.sources.Mirror != "" || o.kernels.Compile() {
		return nil, b, nil, session.Usagef("--recipe says what is built: leave out what selects images (--os, --driver, --arch, --flavour, --all, --kernel), " +
			"--profile, --lock and --mirror")
	}
	text, err := bounded.File(o.recipe, maxRecipe)
	if err == nil {
		again, err = documents.ReadRecipe(text)
	}
	if err != nil {
		return nil, b, nil, session.Usagef("--recipe %s: %w", o.recipe, err)
	}
	b.Targets = []matrix.Target{{
		System: matrix.System{ID: again.System}, Driver: matrix.Driver{Version: again.Driver, Branch: again.Branch,
			VGPU: again.VGPU}, Arch: again.Arch,
		Distro: again.Distro, Flavours: again.Flavours,
	}}
	return &matrix.Matrix{Defaults: matrix.Defaults{Profile: string(again.Profile)}}, b, again, nil
}

// checkSigner refuses to build a recipe with another key of modules than its own.
func checkSigner(r *recipe.Recipe, signer *sign.Signer) error {
	is := ""
	if signer != nil {
		is = sign.Fingerprint(signer.Certificate.Raw)
	}
	if is != r.Signer {
		return session.Usagef("--recipe: its modules are signed by the key of the certificate with the SHA-256 %q, and this build signs with %q: give its --sign-key, "+
			"or check the image with driver-build verify --rebuild, which takes the signatures over", r.Signer, is)
	}
	return nil
}
